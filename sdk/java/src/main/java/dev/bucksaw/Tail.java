package dev.bucksaw;

import java.util.Iterator;
import java.util.NoSuchElementException;

/**
 * Records as nodes accept them, and notices.
 *
 * <p>A tail ends when it is closed: then {@link #hasNext} is false. If the connection ends before,
 * {@code hasNext} throws a {@link QueryException}. One thread at a time may read; any thread may
 * close.
 */
public final class Tail implements Iterator<TailItem>, AutoCloseable {
  private final AnswerLines lines;
  private final AnswerBody body;
  private final Runnable onClose;
  private TailItem next;
  private QueryException failure;

  Tail(AnswerBody body, Runnable onClose) {
    this.body = body;
    this.lines = new AnswerLines(body);
    this.onClose = onClose;
  }

  /**
   * Waits for the next record or notice, for as long as it takes.
   *
   * @return false if the tail was closed
   * @throws QueryException if the connection ended, the answer is invalid, or the thread was
   *     interrupted
   */
  @Override
  public boolean hasNext() {
    if (next != null) {
      return true;
    }
    if (body.isClosed() && failure == null) {
      return false;
    }
    if (failure != null) {
      throw failure;
    }
    try {
      while (lines.next()) {
        if (lines.length() > 0 && AnswerParser.parseOrCut(lines) instanceof TailItem item) {
          next = item;
          return true;
        }
      }
      throw AnswerParser.incomplete(lines, "the node ended the tail");
    } catch (QueryException e) {
      if (body.isClosed()) {
        return false;
      }
      failure = e;
      onClose.run();
      throw e;
    }
  }

  /**
   * The next record or notice.
   *
   * @return a {@link StoredRecord} or a {@link Notice}
   * @throws NoSuchElementException if the tail was closed
   * @throws QueryException as {@link #hasNext} does
   */
  @Override
  public TailItem next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    TailItem item = next;
    next = null;
    return item;
  }

  /** Ends the tail. A thread that waits in {@link #hasNext} gets false. */
  @Override
  public void close() {
    onClose.run();
  }
}
