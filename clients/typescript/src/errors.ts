/** Any error of this package. Reporting runs throws none. */
export class PmlError extends Error {
  override name = "PmlError";
}

/** pml did not answer, or cannot answer at the moment. The same request may succeed later. */
export class Unreachable extends PmlError {
  override name = "Unreachable";
}

/** pml answered that the request is wrong. */
export class Refused extends PmlError {
  override name = "Refused";

  constructor(
    /** The HTTP status. */
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}
