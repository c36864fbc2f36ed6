package dev.bucksaw;

import java.io.IOException;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.LongSupplier;

/** The background thread: sends one batch at a time, in order, until each is finished. */
final class Sender implements Runnable {
  /** A batch with an older key is dropped, because nodes recognise keys for a week. */
  static final long KEY_AGE_MILLIS_MAX = Duration.ofDays(6).toMillis();

  /** Pause after an error of the program itself. */
  private static final long FAILURE_PAUSE_NANOS = Duration.ofSeconds(1).toNanos();

  private final Buffer buffer;
  private final Transport transport;
  private final Failures failures;
  private final List<URI> addresses;
  private final Duration requestTime;
  private final LongSupplier unixMillis;
  private final Keys keys = new Keys();
  private int address;

  Sender(
      Settings settings,
      Buffer buffer,
      Transport transport,
      Failures failures,
      LongSupplier unixMillis) {
    this.buffer = buffer;
    this.transport = transport;
    this.failures = failures;
    this.addresses = settings.ingestAddresses();
    this.requestTime = settings.requestTime();
    this.unixMillis = unixMillis;
  }

  @Override
  public void run() {
    Batch batch = null;
    while (true) {
      try {
        if (batch == null) {
          batch = buffer.next(failures);
          if (batch == null) {
            return;
          }
        }
        deliver(batch);
        batch = null;
      } catch (Throwable e) {
        // Out of memory, for example. The thread goes on, because without it nothing is sent any
        // more, and the batch is kept.
        if (awaitAbort()) {
          return;
        }
      }
    }
  }

  private boolean awaitAbort() {
    try {
      return buffer.awaitAbort(System.nanoTime() + FAILURE_PAUSE_NANOS, failures);
    } catch (Throwable e) {
      return false;
    }
  }

  private void deliver(Batch batch) {
    int failed = 0;
    boolean wasClosed = buffer.closed();
    while (true) {
      if (unixMillis.getAsLong() - batch.createdMillis() > KEY_AGE_MILLIS_MAX) {
        drop(batch, DropReason.TOO_OLD, "not acknowledged for six days");
        return;
      }
      Outcome outcome = attempt(batch);
      if (buffer.aborted()) {
        return;
      }
      if (outcome instanceof Outcome.Acknowledged answer) {
        long rejected = buffer.acknowledge(batch, answer.rejected());
        if (rejected > 0) {
          String reason = answer.firstError().orElse("the node gives no reason");
          failures.report(Failure.Kind.REJECTED, rejected, reason, null);
        }
        return;
      }
      if (outcome instanceof Outcome.Refused answer) {
        drop(
            batch,
            DropReason.REFUSED,
            addresses.get(address).getAuthority() + ": " + answer.error());
        return;
      }
      int retryAfterSeconds = reportFailed(batch, outcome);
      address = (address + 1) % addresses.size();
      double random = ThreadLocalRandom.current().nextDouble();
      // While the client closes the time is short, so the pauses begin anew with the shortest one.
      boolean isClosed = buffer.closed();
      failed = isClosed && !wasClosed ? 1 : failed + 1;
      wasClosed = isClosed;
      double pauseMillis = Pauses.millis(failed, random, isClosed ? 0 : retryAfterSeconds);
      long until = System.nanoTime() + (long) (pauseMillis * 1e6);
      if (buffer.pause(until, !isClosed, failures)) {
        return;
      }
      buffer.countRetry();
    }
  }

  /** Reports an attempt that is repeated. Returns the seconds that the node asks to wait. */
  private int reportFailed(Batch batch, Outcome outcome) {
    String start = addresses.get(address).getAuthority() + ": ";
    if (outcome instanceof Outcome.Denied denied) {
      buffer.countDenied();
      String message = start + denied.error() + transport.problems();
      failures.report(Failure.Kind.DENIED, batch.records(), message, null);
      return denied.retryAfterSeconds();
    }
    Outcome.Retry retry = (Outcome.Retry) outcome;
    String message = start + retry.reason() + transport.problems();
    failures.report(Failure.Kind.ATTEMPT, batch.records(), message, retry.cause().orElse(null));
    return retry.retryAfterSeconds();
  }

  private void drop(Batch batch, DropReason reason, String message) {
    buffer.drop(batch, reason);
    failures.report(Failure.Kind.of(reason), batch.records(), message, null);
  }

  private Outcome attempt(Batch batch) {
    CompletableFuture<Transport.Answer> exchange;
    try {
      batch.prepare(keys);
      exchange = transport.send(addresses.get(address), batch);
    } catch (IOException | RuntimeException | OutOfMemoryError e) {
      return failed(e);
    }
    exchange.whenComplete((answer, failure) -> buffer.wake());
    long deadline = System.nanoTime() + requestTime.toNanos();
    if (!buffer.awaitOrAbort(exchange::isDone, deadline, failures)) {
      exchange.cancel(true);
      return new Outcome.Retry(
          0, "no complete answer within " + requestTime.toMillis() + " ms", Optional.empty());
    }
    if (!exchange.isDone()) {
      // The client is closed, and its close time is over.
      exchange.cancel(true);
      return new Outcome.Retry(0, "closed", Optional.empty());
    }
    try {
      Transport.Answer answer = exchange.join();
      return Outcome.of(answer.status(), answer.retryAfter(), answer.body());
    } catch (CompletionException | CancellationException e) {
      return failed(e.getCause() == null ? e : e.getCause());
    }
  }

  private static Outcome failed(Throwable failure) {
    return new Outcome.Retry(0, TlsFailures.describe(failure), Optional.of(failure));
  }
}
