//! Compiles the wire schema without needing `protoc` on the machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const PROTO: &str = "../../proto/skald/relay/v2/relay_frame.proto";
    println!("cargo:rerun-if-changed={PROTO}");
    let schema = protox::compile(["skald/relay/v2/relay_frame.proto"], ["../../proto"])?;
    // What carries ciphertext, nonces or tokens must not print them, so those messages get a `Debug` by hand.
    let silent = ["Message", "AuthClient", "AuthPairing", "PairingStart", "Challenge", "Auth"];
    prost_build::Config::new()
        .bytes(["."])
        .skip_debug(silent.map(|name| format!(".skald.relay.v2.{name}")))
        .compile_fds(schema)?;
    Ok(())
}
