package dev.bucksaw;

import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;

/**
 * Measures one call of {@link Client#log(LogRecord)}, with one thread and with four, while a node
 * receives the records. {@code bench.sh} runs it.
 */
final class Bench {
  private static final int WARM_UP = 200_000;
  private static final int CALLS = 500_000;
  // Between two calls of a thread: some 20,000 records per second and thread.
  private static final long GAP_NANOS = 50_000;

  private Bench() {}

  public static void main(String[] args) throws Exception {
    Path directory = Files.createTempDirectory("bucksaw-bench");
    try (Node node = new Node(directory)) {
      System.out.printf(
          Locale.ROOT,
          "Java %s, %d processors, load %.2f%n",
          Runtime.version(),
          Runtime.getRuntime().availableProcessors(),
          ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage());
      System.out.println("threads  per thread   p50 us   p99 us   max us  records/s  dropped");
      for (int threads : new int[] {1, 4}) {
        for (long gap : new long[] {GAP_NANOS, 0}) {
          run(node, threads, gap);
        }
      }
    } finally {
      try (Stream<Path> files = Files.walk(directory)) {
        for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
          Files.delete(file);
        }
      }
    }
  }

  private static void run(Node node, int threads, long gap) throws InterruptedException {
    try (Client client =
        Client.builder()
            .endpoints(node.address())
            .label("service.name", "bench")
            .bufferBytes(256 << 20)
            .closeTime(Duration.ofMinutes(1))
            .build()) {
      measure(client, threads, WARM_UP / threads, 0);
      client.flush(Duration.ofMinutes(1));
      int calls = gap == 0 ? CALLS / threads : CALLS / 5 / threads;
      long start = System.nanoTime();
      long[] nanos = measure(client, threads, calls, gap);
      double seconds = (System.nanoTime() - start) / 1e9;
      Arrays.sort(nanos);
      System.out.printf(
          Locale.ROOT,
          "%7d  %-10s %8.2f %8.2f %8.0f %10.0f %8d%n",
          threads,
          gap == 0 ? "unlimited" : "20,000/s",
          nanos[nanos.length / 2] / 1e3,
          nanos[(int) (nanos.length * 0.99)] / 1e3,
          nanos[nanos.length - 1] / 1e3,
          nanos.length / seconds,
          client.stats().droppedTotal());
    }
  }

  private static long[] measure(Client client, int threads, int calls, long gap)
      throws InterruptedException {
    long[] nanos = new long[threads * calls];
    CountDownLatch start = new CountDownLatch(1);
    Thread[] all = new Thread[threads];
    for (int t = 0; t < threads; t++) {
      int first = t * calls;
      all[t] =
          new Thread(
              () -> {
                try {
                  start.await();
                } catch (InterruptedException e) {
                  return;
                }
                long next = System.nanoTime();
                for (int i = 0; i < calls; i++) {
                  Map<String, Object> attributes =
                      Map.of("order", i, "user", "u" + i % 100, "path", "/api/v1/pay", "ms", 1.5);
                  while (gap > 0 && System.nanoTime() < next) {
                    Thread.onSpinWait();
                  }
                  next += gap;
                  long before = System.nanoTime();
                  client.log(
                      Level.INFO, "payment accepted for the order of a customer", attributes);
                  nanos[first + i] = System.nanoTime() - before;
                }
              });
      all[t].start();
    }
    start.countDown();
    for (Thread thread : all) {
      thread.join();
    }
    return nanos;
  }
}
