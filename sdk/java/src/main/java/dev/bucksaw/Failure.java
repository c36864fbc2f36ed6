package dev.bucksaw;

import java.util.Optional;

/**
 * A failure that the client reports to the function of {@link Client.Builder#onError}.
 *
 * @param kind what failed
 * @param records how many records it concerns
 * @param message a sentence about the reason
 * @param cause the exception, if there was one
 */
public record Failure(Kind kind, long records, String message, Optional<Throwable> cause) {

  /** Kind of a failure. */
  public enum Kind {
    /** An attempt to send a batch failed. The batch is kept and sent again. */
    ATTEMPT("not sent yet, to be sent again"),
    /**
     * The node refused an attempt with 401 or 403: the client has no token, or one that does not
     * suffice. The batch is kept and sent again.
     */
    DENIED("not sent yet, because the node denies access, to be sent again"),
    /** The node accepted a batch, but not these records of it. They are lost. */
    REJECTED("rejected"),
    /** Records were dropped because the buffer was full. */
    FULL("dropped"),
    /** Records were dropped because the node refused their batch. */
    REFUSED("dropped"),
    /** Records were dropped because they were not acknowledged for six days. */
    TOO_OLD("dropped"),
    /** Records were dropped because their attributes alone are longer than 1 MiB. */
    TOO_LARGE("dropped"),
    /** Records were dropped because the client was closed. */
    CLOSED("dropped");

    private final String effect;

    Kind(String effect) {
      this.effect = effect;
    }

    String effect() {
      return effect;
    }

    static Kind of(DropReason reason) {
      return switch (reason) {
        case FULL -> FULL;
        case REFUSED -> REFUSED;
        case TOO_OLD -> TOO_OLD;
        case TOO_LARGE -> TOO_LARGE;
        case CLOSED -> CLOSED;
      };
    }
  }
}
