package dev.bucksaw;

import java.io.ByteArrayOutputStream;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/** The first bytes of a body. What follows them is not read. */
final class BoundedBody implements BodySubscriber<byte[]> {
  /** Answers to batches are shorter, but for lists of errors that nobody reads to their end. */
  static final int BYTES_MAX = 64 << 10;

  private final CompletableFuture<byte[]> body = new CompletableFuture<>();
  private final ByteArrayOutputStream read = new ByteArrayOutputStream();
  private Flow.Subscription subscription;

  @Override
  public CompletionStage<byte[]> getBody() {
    return body;
  }

  @Override
  public void onSubscribe(Flow.Subscription subscription) {
    this.subscription = subscription;
    subscription.request(1);
  }

  @Override
  public void onNext(List<ByteBuffer> buffers) {
    for (ByteBuffer buffer : buffers) {
      byte[] part = new byte[Math.min(buffer.remaining(), BYTES_MAX - read.size())];
      buffer.get(part);
      read.write(part, 0, part.length);
    }
    if (read.size() == BYTES_MAX) {
      subscription.cancel();
      body.complete(read.toByteArray());
    } else {
      subscription.request(1);
    }
  }

  @Override
  public void onError(Throwable failure) {
    body.completeExceptionally(failure);
  }

  @Override
  public void onComplete() {
    body.complete(read.toByteArray());
  }
}
