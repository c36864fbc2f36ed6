package dev.bucksaw;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;

/**
 * Connections to nodes.
 *
 * <p>In Java 17, an {@link HttpClient} has no method to close it: its thread and its idle
 * connections end when it is unreachable. So {@link #close} drops the only reference to it. Later
 * versions close it at once.
 */
final class Http implements Transport {
  private final Duration requestTime;
  private final Credentials credentials;
  private final Certificates certificates;
  private final Executor executor = executor();
  private HttpClient client;
  private Optional<SSLContext> context;

  Http(Duration requestTime, Credentials credentials, Certificates certificates) {
    this.requestTime = requestTime;
    this.credentials = credentials;
    this.certificates = certificates;
    context = certificates.context();
    client = newClient();
  }

  private HttpClient newClient() {
    SSLParameters parameters = new SSLParameters();
    parameters.setProtocols(new String[] {"TLSv1.3", "TLSv1.2"});
    // Explicit, because a property of the system changes the default of the HTTP client.
    parameters.setEndpointIdentificationAlgorithm("HTTPS");
    HttpClient.Builder builder =
        HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .followRedirects(HttpClient.Redirect.NEVER)
            .connectTimeout(requestTime)
            .sslParameters(parameters)
            .executor(executor);
    context.ifPresent(builder::sslContext);
    return builder.build();
  }

  @Override
  public String problems() {
    List<String> problems =
        Stream.of(credentials.problem(), certificates.problem()).flatMap(Optional::stream).toList();
    return problems.isEmpty()
        ? ""
        : " (a changed file cannot be used: " + String.join("; ", problems) + ")";
  }

  /** Daemon threads that end when they are idle, so that nothing remains after closing. */
  private static Executor executor() {
    return new ThreadPoolExecutor(
        0,
        Integer.MAX_VALUE,
        1,
        TimeUnit.SECONDS,
        new SynchronousQueue<>(),
        work -> {
          Thread thread = new Thread(work, "bucksaw-http");
          thread.setDaemon(true);
          return thread;
        });
  }

  @Override
  public CompletableFuture<Answer> send(URI address, Batch batch) {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(address)
            .timeout(requestTime)
            .header("Content-Type", "application/x-ndjson")
            .header("Idempotency-Key", batch.key())
            .POST(HttpRequest.BodyPublishers.ofByteArray(batch.body()));
    if (batch.compressed()) {
      request.header("Content-Encoding", "gzip");
    }
    authorize(request);
    CompletableFuture<HttpResponse<byte[]>> response =
        client().sendAsync(request.build(), info -> new BoundedBody());
    CompletableFuture<Answer> answer =
        response.thenApply(
            r -> new Answer(r.statusCode(), r.headers().firstValue("Retry-After"), r.body()));
    // Cancelling a dependent future does not cancel the exchange.
    answer.whenComplete(
        (done, failure) -> {
          if (answer.isCancelled()) {
            response.cancel(true);
          }
        });
    return answer;
  }

  /** Starts a request of reading. */
  <T> CompletableFuture<HttpResponse<T>> get(URI address, HttpResponse.BodyHandler<T> handler) {
    HttpRequest.Builder request = HttpRequest.newBuilder(address).GET();
    authorize(request);
    return client().sendAsync(request.build(), handler);
  }

  private void authorize(HttpRequest.Builder request) {
    credentials.authorization().ifPresent(text -> request.header("Authorization", text));
  }

  /** The client of the current certificates. Requests that run keep their own one. */
  private synchronized HttpClient client() {
    if (client == null) {
      throw new IllegalStateException("the client is closed");
    }
    Optional<SSLContext> current = certificates.context();
    if (!current.equals(context)) {
      context = current;
      client = newClient();
    }
    return client;
  }

  synchronized void close() {
    HttpClient closing = client;
    client = null;
    if (closing == null) {
      return;
    }
    try {
      HttpClient.class.getMethod("shutdownNow").invoke(closing);
    } catch (ReflectiveOperationException e) {
      // Before Java 21 there is no such method; see the comment of the class.
      return;
    }
  }
}
