package dev.bucksaw;

import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Opens queries, counts and tails, at the first endpoint that answers. */
final class Reader {
  private static final Duration FOREVER = Duration.ofNanos(Long.MAX_VALUE);

  private final Http http;
  private final List<URI> endpoints;
  // Open answers, which closing the client closes.
  private final Set<AnswerBody> open = ConcurrentHashMap.newKeySet();
  private volatile boolean closed;

  Reader(Http http, List<URI> endpoints) {
    this.http = http;
    this.endpoints = endpoints;
  }

  QueryResult query(QueryRequest request) {
    AnswerBody body = open(request.queryTarget(), request.idleTime(), request.idleTime());
    return new QueryResult(body, request.partialAllowed(), () -> close(body));
  }

  long count(QueryRequest request) {
    AnswerBody body = open(request.countTarget(), request.idleTime(), request.idleTime());
    try {
      byte[] document = read(body, AnswerLines.LINE_BYTES_MAX);
      if (body.failure() != null) {
        throw new QueryException(
            QueryException.Kind.INCOMPLETE, "the connection ended", body.failure());
      }
      AnswerParser.Count count = AnswerParser.parseCount(document, document.length);
      if (count.stats().partial() && !request.partialAllowed()) {
        throw QueryResult.partial(count.stats());
      }
      return count.count();
    } finally {
      close(body);
    }
  }

  Tail tail(String expression, Duration headTime) {
    AnswerBody body = open(QueryRequest.tailTarget(expression), headTime, FOREVER);
    return new Tail(body, () -> close(body));
  }

  void close() {
    closed = true;
    open.forEach(this::close);
  }

  private void close(AnswerBody body) {
    open.remove(body);
    body.close();
  }

  private AnswerBody open(String target, Duration headTime, Duration idleTime) {
    QueryException failure = null;
    for (URI endpoint : endpoints) {
      try {
        return open(endpoint, target, headTime, idleTime);
      } catch (QueryException e) {
        if (failure != null) {
          e.addSuppressed(failure);
        }
        failure = e;
        if (e.kind() != QueryException.Kind.UNREACHABLE
            && e.kind() != QueryException.Kind.TIMEOUT) {
          break;
        }
      }
    }
    throw failure;
  }

  private AnswerBody open(URI endpoint, String target, Duration headTime, Duration idleTime) {
    if (closed) {
      throw new QueryException(QueryException.Kind.CLOSED, "the client is closed", null);
    }
    AnswerBody body = new AnswerBody(idleTime);
    open.add(body);
    boolean opened = false;
    try {
      HttpResponse<AnswerBody> response = head(endpoint, target, headTime, body);
      if (response.statusCode() != 200) {
        throw refused(endpoint, response.statusCode(), body);
      }
      if (closed) {
        throw new QueryException(QueryException.Kind.CLOSED, "the client is closed", null);
      }
      opened = true;
      return body;
    } finally {
      if (!opened) {
        close(body);
      }
    }
  }

  private HttpResponse<AnswerBody> head(
      URI endpoint, String target, Duration headTime, AnswerBody body) {
    CompletableFuture<HttpResponse<AnswerBody>> response =
        http.get(URI.create(endpoint + target), info -> body);
    body.exchange(response);
    boolean arrived = false;
    try {
      HttpResponse<AnswerBody> head = response.get(Client.nanos(headTime), TimeUnit.NANOSECONDS);
      arrived = true;
      return head;
    } catch (ExecutionException e) {
      if (body.isClosed()) {
        throw new QueryException(QueryException.Kind.CLOSED, "the client is closed", e);
      }
      throw new QueryException(
          QueryException.Kind.UNREACHABLE,
          endpoint.getAuthority() + ": " + TlsFailures.describe(e.getCause()) + http.problems(),
          e.getCause());
    } catch (CancellationException e) {
      throw new QueryException(QueryException.Kind.CLOSED, "the client is closed", e);
    } catch (TimeoutException e) {
      throw new QueryException(
          QueryException.Kind.TIMEOUT,
          endpoint.getAuthority() + ": no answer within " + headTime.toMillis() + " ms",
          e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new QueryException(QueryException.Kind.CLOSED, "interrupted", e);
    } finally {
      if (!arrived) {
        response.cancel(true);
      }
    }
  }

  private QueryException refused(URI endpoint, int status, AnswerBody body) {
    String error = Outcome.error(read(body, BoundedBody.BYTES_MAX)).orElse("status " + status);
    QueryException.Kind kind =
        Outcome.isRetried(status) ? QueryException.Kind.UNREACHABLE : QueryException.Kind.REFUSED;
    String message = endpoint.getAuthority() + ": " + error + http.problems();
    return new QueryException(kind, status, List.of(), message, null);
  }

  private static byte[] read(AnswerBody body, int bytesMax) {
    ByteArrayOutputStream read = new ByteArrayOutputStream();
    ByteBuffer part;
    while (read.size() < bytesMax && (part = body.next()) != null) {
      byte[] bytes = new byte[Math.min(part.remaining(), bytesMax - read.size())];
      part.get(bytes);
      read.write(bytes, 0, bytes.length);
    }
    return read.toByteArray();
  }
}
