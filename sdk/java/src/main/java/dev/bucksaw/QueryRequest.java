package dev.bucksaw;

import java.time.Duration;
import java.time.Instant;
import java.util.Objects;

/** What to search for. A request does not change: each method returns another one. */
public final class QueryRequest {
  /** By default a node answers within a minute, and may send nothing until then. */
  private static final Duration IDLE_TIME = Duration.ofSeconds(90);

  private final String expression;
  private final String from;
  private final String to;
  private final long limit;
  private final boolean newestFirst;
  private final boolean allowPartial;
  private final Duration idleTime;

  private QueryRequest(
      String expression,
      String from,
      String to,
      long limit,
      boolean newestFirst,
      boolean allowPartial,
      Duration idleTime) {
    this.expression = expression;
    this.from = from;
    this.to = to;
    this.limit = limit;
    this.newestFirst = newestFirst;
    this.allowPartial = allowPartial;
    this.idleTime = idleTime;
  }

  /**
   * A request for the records of the last hour that match an expression, oldest first.
   *
   * @param expression a filter expression, such as {@code level=error timeout}; empty for all
   *     records
   * @return the request
   */
  public static QueryRequest of(String expression) {
    Objects.requireNonNull(expression, "expression");
    return new QueryRequest(expression, null, null, 0, false, false, IDLE_TIME);
  }

  /**
   * Sets the start of the time range.
   *
   * @param from a time as on the command line: {@code 15m}, {@code yesterday}, {@code
   *     2026-11-20T23:10:00Z}
   * @return the request
   */
  public QueryRequest from(String from) {
    Objects.requireNonNull(from, "from");
    return new QueryRequest(expression, from, to, limit, newestFirst, allowPartial, idleTime);
  }

  /**
   * Sets the start of the time range.
   *
   * @param from a time
   * @return the request
   */
  public QueryRequest from(Instant from) {
    return from(from.toString());
  }

  /**
   * Sets the end of the time range.
   *
   * @param to a time as on the command line
   * @return the request
   */
  public QueryRequest to(String to) {
    Objects.requireNonNull(to, "to");
    return new QueryRequest(expression, from, to, limit, newestFirst, allowPartial, idleTime);
  }

  /**
   * Sets the end of the time range.
   *
   * @param to a time
   * @return the request
   */
  public QueryRequest to(Instant to) {
    return to(to.toString());
  }

  /**
   * Sets the largest number of records. A count ignores it.
   *
   * @param limit number of records, at least 1
   * @return the request
   */
  public QueryRequest limit(long limit) {
    if (limit < 1) {
      throw new IllegalArgumentException("limit: " + limit + " is less than 1");
    }
    return new QueryRequest(expression, from, to, limit, newestFirst, allowPartial, idleTime);
  }

  /**
   * Asks for the newest records first.
   *
   * @return the request
   */
  public QueryRequest newestFirst() {
    return new QueryRequest(expression, from, to, limit, true, allowPartial, idleTime);
  }

  /**
   * Accepts an answer in which records may be missing. Without it, such an answer ends with a
   * {@link QueryException}.
   *
   * @return the request
   */
  public QueryRequest allowPartial() {
    return new QueryRequest(expression, from, to, limit, newestFirst, true, idleTime);
  }

  /**
   * Sets the longest time in which no part of the answer arrives; by default 90 s. A node may
   * search for as long as its own limit, by default 60 s, before it finds a record.
   *
   * @param idleTime the time, from 1 ms
   * @return the request
   */
  public QueryRequest idleTime(Duration idleTime) {
    if (idleTime.compareTo(Duration.ofMillis(1)) < 0) {
      throw new IllegalArgumentException("idleTime: " + idleTime + " is less than 1 ms");
    }
    return new QueryRequest(expression, from, to, limit, newestFirst, allowPartial, idleTime);
  }

  boolean partialAllowed() {
    return allowPartial;
  }

  Duration idleTime() {
    return idleTime;
  }

  /** Path and parameters of a query. */
  String queryTarget() {
    StringBuilder target = new StringBuilder("/api/v1/query?").append(range());
    if (limit > 0) {
      target.append("&limit=").append(limit);
    }
    return target.append(newestFirst ? "&order=desc" : "").toString();
  }

  /** Path and parameters of a count. */
  String countTarget() {
    return "/api/v1/count?" + range();
  }

  static String tailTarget(String expression) {
    return "/api/v1/tail?q=" + Settings.encode(expression);
  }

  private String range() {
    StringBuilder range = new StringBuilder("q=").append(Settings.encode(expression));
    if (from != null) {
      range.append("&from=").append(Settings.encode(from));
    }
    if (to != null) {
      range.append("&to=").append(Settings.encode(to));
    }
    return range.toString();
  }
}
