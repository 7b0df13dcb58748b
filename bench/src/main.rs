//! Measures pipes and pages beside their baselines.

fn main() {}
