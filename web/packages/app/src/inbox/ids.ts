// Ids that tie the parts of a card together.

/** The element that names a card; its buttons are described by it. */
export const titleId = (id: string) => `title-${id}`;
