package dev.bucksaw;

import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * The records of an answer, as they arrive, and then its statistics.
 *
 * <p>The answer is over when {@link #hasNext} is false. If it is incomplete, partial or invalid,
 * {@code hasNext} throws a {@link QueryException} after its last record, and does so at each
 * further call. Closing the answer before its end cancels the query at the node. One thread at a
 * time may read; any thread may close.
 */
public final class QueryResult implements Iterator<StoredRecord>, AutoCloseable {
  private final AnswerLines lines;
  private final boolean allowPartial;
  private final Runnable onClose;
  private StoredRecord next;
  private QueryStats stats;
  private QueryException failure;
  private boolean ended;
  private volatile boolean closed;

  QueryResult(AnswerLines.Source source, boolean allowPartial, Runnable onClose) {
    this.lines = new AnswerLines(source);
    this.allowPartial = allowPartial;
    this.onClose = onClose;
  }

  /**
   * Waits for the next record, or for the end of the answer.
   *
   * @return whether there is another record
   * @throws QueryException if the answer is incomplete, partial or invalid, takes too long, or was
   *     closed before its end
   */
  @Override
  public boolean hasNext() {
    if (next != null) {
      return true;
    }
    if (failure != null) {
      throw failure;
    }
    if (ended) {
      return false;
    }
    if (closed) {
      throw new QueryException(QueryException.Kind.CLOSED, "the answer is closed", null);
    }
    try {
      read();
    } catch (QueryException e) {
      failure = e;
      onClose.run();
      throw e;
    }
    return next != null;
  }

  private void read() {
    while (lines.next()) {
      if (lines.length() == 0) {
        continue;
      }
      Object item = AnswerParser.parseOrCut(lines);
      if (item instanceof StoredRecord record) {
        next = record;
        return;
      }
      if (item instanceof QueryStats last) {
        end(last);
        return;
      }
    }
    throw AnswerParser.incomplete(lines, "the answer ended without its statistics");
  }

  private void end(QueryStats last) {
    stats = last;
    if (last.partial() && !allowPartial) {
      throw partial(last);
    }
    ended = true;
    onClose.run();
  }

  static QueryException partial(QueryStats stats) {
    return new QueryException(
        QueryException.Kind.PARTIAL,
        0,
        stats.partialReasons(),
        "records may be missing: " + String.join("; ", stats.partialReasons()),
        null);
  }

  /**
   * The next record.
   *
   * @return the record
   * @throws NoSuchElementException at the end of the answer
   * @throws QueryException as {@link #hasNext} does
   */
  @Override
  public StoredRecord next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    StoredRecord record = next;
    next = null;
    return record;
  }

  /**
   * The records that were not read yet, as a stream. Closing the stream closes the answer.
   *
   * @return a sequential stream
   */
  public Stream<StoredRecord> stream() {
    return StreamSupport.stream(
            Spliterators.spliteratorUnknownSize(this, Spliterator.ORDERED | Spliterator.NONNULL),
            false)
        .onClose(this::close);
  }

  /**
   * The statistics, once the answer is over, also if it is partial.
   *
   * @return the statistics
   */
  public Optional<QueryStats> stats() {
    return Optional.ofNullable(stats);
  }

  /** Ends the answer. Before its end this cancels the query at the node. */
  @Override
  public void close() {
    closed = true;
    onClose.run();
  }
}
