package dev.bucksaw;

import java.util.List;

/** A query, count or tail failed, or its answer is not whole. */
public final class QueryException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Kind of the failure. */
  public enum Kind {
    /** The node refused the request: the expression is invalid, for example. */
    REFUSED,
    /** No endpoint could be reached, or none accepts queries at the moment. */
    UNREACHABLE,
    /** No part of the answer arrived for the idle time. */
    TIMEOUT,
    /** The answer ended before its statistics. */
    INCOMPLETE,
    /** The answer is whole, but the node says that records may be missing. */
    PARTIAL,
    /** The answer is not what a node sends. */
    INVALID,
    /** The answer or the client was closed meanwhile, or the thread was interrupted. */
    CLOSED
  }

  /** The kind. */
  private final Kind kind;

  /** The status of HTTP, or 0. */
  private final int status;

  /** Why the answer is partial. */
  private final transient List<String> reasons;

  QueryException(Kind kind, String message, Throwable cause) {
    this(kind, 0, List.of(), message, cause);
  }

  QueryException(Kind kind, int status, List<String> reasons, String message, Throwable cause) {
    super(message, cause);
    this.kind = kind;
    this.status = status;
    this.reasons = List.copyOf(reasons);
  }

  /**
   * What failed.
   *
   * @return the kind
   */
  public Kind kind() {
    return kind;
  }

  /**
   * The status of HTTP of a refused request.
   *
   * @return the status; 0 if there is none
   */
  public int status() {
    return status;
  }

  /**
   * Why an answer is partial.
   *
   * @return the reasons; empty for other kinds
   */
  public List<String> reasons() {
    return reasons == null ? List.of() : reasons;
  }
}
