package dev.bucksaw;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;

/**
 * The records that are neither acknowledged nor dropped, and all counters.
 *
 * <p>One lock guards everything here. No thread holds it during I/O, encoding or compression.
 * Invariant, whenever the lock is free: {@code logged = acknowledged + rejected + dropped +
 * records}.
 */
final class Buffer {
  /** Shortest time between two reports of records that callers could not add. */
  private static final long REPORT_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final Settings settings;
  private final ReentrantLock lock = new ReentrantLock();
  // The sender waits for work, callers for space, `flush` and `close` for progress.
  private final Condition work = lock.newCondition();
  private final Condition space = lock.newCondition();
  private final Condition progress = lock.newCondition();

  private final ArrayDeque<Batch> sealed = new ArrayDeque<>();
  private Batch open;
  private boolean closed;
  private boolean aborted;

  // Batches have numbers in the order in which they are sealed, and are sent in that order.
  private long sealedBatches;
  private long finishedBatches;

  private long bytes;
  private long records;
  private long logged;
  private long acknowledged;
  private long rejected;
  private long retries;
  private long denied;
  private final long[] dropped = new long[DropReason.values().length];

  // What callers dropped and the sender has not reported yet.
  private final long[] unreported = new long[DropReason.values().length];
  private boolean hasUnreported;
  private long reportedNanos;

  Buffer(Settings settings) {
    this.settings = settings;
    reportedNanos = System.nanoTime() - REPORT_NANOS;
  }

  /** Adds an encoded line, or drops it. */
  void append(byte[] line, int length) {
    lock.lock();
    try {
      if (!closed && bytes + length > settings.bufferBytes()) {
        sealIfIdle();
        if (settings.whenFull() == WhenFull.DROP || !awaitSpace(length)) {
          drop(DropReason.FULL);
          return;
        }
      }
      if (closed) {
        drop(DropReason.CLOSED);
        return;
      }
      if (open != null && open.size() + length > settings.batchBytes()) {
        seal();
      }
      if (open == null) {
        open = new Batch(System.currentTimeMillis(), System.nanoTime());
        // The sender measures the age of the batch from now on.
        work.signal();
      }
      open.append(line, length);
      logged++;
      records++;
      bytes += length;
      if (open.size() >= settings.batchBytes() || open.records() >= settings.batchRecords()) {
        seal();
      }
    } finally {
      lock.unlock();
    }
  }

  /** Counts a record that is dropped before it reaches the buffer. */
  void refuse(DropReason reason) {
    lock.lock();
    try {
      drop(closed ? DropReason.CLOSED : reason);
    } finally {
      lock.unlock();
    }
  }

  private void drop(DropReason reason) {
    logged++;
    dropped[reason.ordinal()]++;
    if (unreported[reason.ordinal()]++ == 0 && !hasUnreported) {
      hasUnreported = true;
      work.signal();
    }
  }

  /** Waits for at most the block time. Returns true as well if the buffer is closed meanwhile. */
  private boolean awaitSpace(int length) {
    if (length > settings.bufferBytes()) {
      return false;
    }
    long remaining = settings.blockTime().toNanos();
    while (!closed && bytes + length > settings.bufferBytes()) {
      if (remaining <= 0) {
        return false;
      }
      sealIfIdle();
      try {
        remaining = space.awaitNanos(remaining);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return false;
      }
    }
    return true;
  }

  /**
   * Seals the open batch if no other one is being sent. In a full buffer nothing else makes space
   * before the age of the batch is reached.
   */
  private void sealIfIdle() {
    if (finishedBatches == sealedBatches) {
      seal();
    }
  }

  private void seal() {
    if (open != null) {
      sealed.add(open);
      open = null;
      sealedBatches++;
      work.signal();
    }
  }

  /** The next batch to send; null after closing when none is left, or after an abort. */
  Batch next(Failures failures) {
    while (true) {
      long deadline = System.nanoTime() + TimeUnit.HOURS.toNanos(1);
      Batch known;
      lock.lock();
      try {
        if (open != null) {
          deadline = open.createdNanos() + settings.batchAge().toNanos();
          if (deadline - System.nanoTime() <= 0) {
            seal();
          }
        }
        Batch next = aborted ? null : sealed.poll();
        if (next != null || closed) {
          return next;
        }
        known = open;
      } finally {
        lock.unlock();
      }
      await(() -> closed || !sealed.isEmpty() || open != known, deadline, failures);
    }
  }

  /**
   * Waits until something is ready or a time is reached, for the sender. Meanwhile it reports what
   * callers dropped.
   *
   * @param ready is called with the lock held
   * @return whether it was ready
   */
  private boolean await(BooleanSupplier ready, long deadlineNanos, Failures failures) {
    lock.lock();
    try {
      while (true) {
        if (ready.getAsBoolean()) {
          return true;
        }
        long now = System.nanoTime();
        long wait = deadlineNanos - now;
        if (wait <= 0) {
          return false;
        }
        if (hasUnreported) {
          long due = reportedNanos + REPORT_NANOS - now;
          if (due <= 0) {
            reportedNanos = now;
            long[] counts = takeUnreported();
            lock.unlock();
            try {
              report(counts, failures);
            } finally {
              lock.lock();
            }
            continue;
          }
          wait = Math.min(wait, due);
        }
        try {
          work.awaitNanos(wait);
        } catch (InterruptedException e) {
          // Nothing interrupts the sender on purpose. It goes on, and ends by closing.
          continue;
        }
      }
    } finally {
      lock.unlock();
    }
  }

  /** Like {@link #await}; an abort counts as ready. */
  boolean awaitOrAbort(BooleanSupplier ready, long deadlineNanos, Failures failures) {
    return await(() -> aborted || ready.getAsBoolean(), deadlineNanos, failures);
  }

  /** Waits until a time, and returns whether the buffer was aborted before. */
  boolean awaitAbort(long deadlineNanos, Failures failures) {
    return await(() -> aborted, deadlineNanos, failures);
  }

  /**
   * Waits before a retry, and returns whether the buffer was aborted before.
   *
   * @param untilClosed whether closing ends the wait
   */
  boolean pause(long deadlineNanos, boolean untilClosed, Failures failures) {
    await(() -> aborted || untilClosed && closed, deadlineNanos, failures);
    return aborted();
  }

  /** Makes the sender look again at what it waits for. */
  void wake() {
    lock.lock();
    try {
      work.signal();
    } finally {
      lock.unlock();
    }
  }

  private long[] takeUnreported() {
    long[] counts = unreported.clone();
    Arrays.fill(unreported, 0);
    hasUnreported = false;
    return counts;
  }

  /** Reports what callers dropped and is not reported yet. */
  void reportDropped(Failures failures) {
    lock.lock();
    long[] counts;
    try {
      counts = takeUnreported();
    } finally {
      lock.unlock();
    }
    report(counts, failures);
  }

  private void report(long[] counts, Failures failures) {
    for (DropReason reason : DropReason.values()) {
      long count = counts[reason.ordinal()];
      if (count > 0) {
        failures.report(Failure.Kind.of(reason), count, message(reason), null);
      }
    }
  }

  private String message(DropReason reason) {
    return switch (reason) {
      case FULL -> "the buffer of " + settings.bufferBytes() + " bytes is full";
      case TOO_LARGE -> "the attributes are longer than " + Encoder.LINE_BYTES_MAX + " bytes";
      case CLOSED -> "the client is closed";
      case REFUSED, TOO_OLD -> reason.name();
    };
  }

  boolean closed() {
    lock.lock();
    try {
      return closed;
    } finally {
      lock.unlock();
    }
  }

  boolean aborted() {
    lock.lock();
    try {
      return aborted;
    } finally {
      lock.unlock();
    }
  }

  void countRetry() {
    lock.lock();
    try {
      retries++;
    } finally {
      lock.unlock();
    }
  }

  void countDenied() {
    lock.lock();
    try {
      denied++;
    } finally {
      lock.unlock();
    }
  }

  /** Counts an accepted batch. Returns the number of its records that were rejected. */
  long acknowledge(Batch batch, long rejectedRecords) {
    long lost = Math.min(rejectedRecords, batch.records());
    lock.lock();
    try {
      if (aborted || !batch.finish()) {
        return 0;
      }
      acknowledged += batch.records() - lost;
      rejected += lost;
      finish(batch);
    } finally {
      lock.unlock();
    }
    return lost;
  }

  /** Counts a batch that is not sent again. */
  void drop(Batch batch, DropReason reason) {
    lock.lock();
    try {
      if (!aborted && batch.finish()) {
        dropped[reason.ordinal()] += batch.records();
        finish(batch);
      }
    } finally {
      lock.unlock();
    }
  }

  private void finish(Batch batch) {
    records -= batch.records();
    bytes -= batch.size();
    finishedBatches++;
    space.signalAll();
    progress.signalAll();
  }

  /**
   * Seals the open batch, and waits until all batches that are sealed then are finished.
   *
   * @return whether the time sufficed
   */
  boolean flush(long timeoutNanos) throws InterruptedException {
    lock.lock();
    try {
      seal();
      return awaitBatches(sealedBatches, timeoutNanos);
    } finally {
      lock.unlock();
    }
  }

  private boolean awaitBatches(long target, long timeoutNanos) throws InterruptedException {
    long remaining = timeoutNanos;
    while (finishedBatches < target) {
      if (remaining <= 0) {
        return false;
      }
      remaining = progress.awaitNanos(remaining);
    }
    return true;
  }

  /**
   * Accepts no more records, waits until those in memory are finished, and drops the rest. Further
   * calls wait for the first one.
   */
  void close(long timeoutNanos) {
    boolean interrupted = false;
    lock.lock();
    try {
      closed = true;
      seal();
      work.signal();
      space.signalAll();
      try {
        awaitBatches(sealedBatches, timeoutNanos);
      } catch (InterruptedException e) {
        interrupted = true;
      }
      abort();
    } finally {
      lock.unlock();
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private void abort() {
    if (!aborted) {
      aborted = true;
      dropped[DropReason.CLOSED.ordinal()] += records;
      unreported[DropReason.CLOSED.ordinal()] += records;
      hasUnreported |= records > 0;
      sealed.clear();
      records = 0;
      bytes = 0;
      finishedBatches = sealedBatches;
    }
    work.signal();
    space.signalAll();
    progress.signalAll();
  }

  Stats stats() {
    lock.lock();
    try {
      Map<DropReason, Long> byReason = new EnumMap<>(DropReason.class);
      for (DropReason reason : DropReason.values()) {
        byReason.put(reason, dropped[reason.ordinal()]);
      }
      return new Stats(logged, acknowledged, rejected, retries, denied, byReason, records, bytes);
    } finally {
      lock.unlock();
    }
  }
}
