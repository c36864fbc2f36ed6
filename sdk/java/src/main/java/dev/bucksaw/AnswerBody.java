package dev.bucksaw;

import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;
import java.util.concurrent.Future;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The body of an answer, one part at a time. The next part is requested when it is needed, so a
 * slow reader slows the node down and nothing piles up.
 */
final class AnswerBody implements BodySubscriber<AnswerBody>, AnswerLines.Source {
  private final long idleNanos;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final ArrayDeque<ByteBuffer> parts = new ArrayDeque<>();
  private Flow.Subscription subscription;
  private boolean requested;
  private boolean ended;
  private boolean closed;
  private Throwable failure;
  private Future<?> exchange;

  AnswerBody(Duration idleTime) {
    this.idleNanos = Client.nanos(idleTime);
  }

  @Override
  public CompletionStage<AnswerBody> getBody() {
    // Available with the head of the answer.
    return CompletableFuture.completedFuture(this);
  }

  @Override
  public void onSubscribe(Flow.Subscription subscription) {
    boolean cancel;
    lock.lock();
    try {
      this.subscription = subscription;
      cancel = closed;
      changed.signalAll();
    } finally {
      lock.unlock();
    }
    if (cancel) {
      subscription.cancel();
    }
  }

  @Override
  public void onNext(List<ByteBuffer> buffers) {
    lock.lock();
    try {
      requested = false;
      parts.addAll(buffers);
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  @Override
  public void onError(Throwable failure) {
    lock.lock();
    try {
      this.failure = failure;
      ended = true;
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  @Override
  public void onComplete() {
    lock.lock();
    try {
      ended = true;
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  /**
   * The next part of the body; null at its end, also if the connection was lost.
   *
   * @throws QueryException if no part arrived for the idle time, or the body was closed
   */
  @Override
  public ByteBuffer next() {
    lock.lock();
    try {
      long remaining = idleNanos;
      while (true) {
        if (closed) {
          throw new QueryException(QueryException.Kind.CLOSED, "the answer is closed", null);
        }
        if (!parts.isEmpty()) {
          return parts.poll();
        }
        if (ended) {
          return null;
        }
        if (remaining <= 0) {
          throw new QueryException(
              QueryException.Kind.TIMEOUT,
              "no part of the answer arrived for " + Duration.ofNanos(idleNanos).toMillis() + " ms",
              null);
        }
        if (!requested && subscription != null) {
          requested = true;
          Flow.Subscription source = subscription;
          // The part may be delivered within this call, by this thread.
          lock.unlock();
          try {
            source.request(1);
          } finally {
            lock.lock();
          }
          continue;
        }
        remaining = changed.awaitNanos(remaining);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new QueryException(QueryException.Kind.CLOSED, "interrupted", e);
    } finally {
      lock.unlock();
    }
  }

  @Override
  public Throwable failure() {
    lock.lock();
    try {
      return failure;
    } finally {
      lock.unlock();
    }
  }

  boolean isClosed() {
    lock.lock();
    try {
      return closed;
    } finally {
      lock.unlock();
    }
  }

  /** Sets the exchange that closing cancels while its head has not arrived. */
  void exchange(Future<?> exchange) {
    boolean cancel;
    lock.lock();
    try {
      this.exchange = exchange;
      cancel = closed;
    } finally {
      lock.unlock();
    }
    if (cancel) {
      exchange.cancel(true);
    }
  }

  /** Ends the answer. The connection is closed unless the body was read to its end. */
  void close() {
    Flow.Subscription source;
    Future<?> opening;
    lock.lock();
    try {
      closed = true;
      opening = exchange;
      parts.clear();
      source = ended ? null : subscription;
      changed.signalAll();
    } finally {
      lock.unlock();
    }
    if (source != null) {
      source.cancel();
    }
    if (opening != null) {
      opening.cancel(true);
    }
  }
}
