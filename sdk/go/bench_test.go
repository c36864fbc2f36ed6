package bucksaw

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"
)

// discard is a transport that acknowledges each batch without a network.
func discard(*http.Request) (int, string, string) { return 200, "", success }

func newBenchClient(b *testing.B) *Client {
	b.Helper()
	client, err := New(Config{Transport: roundTrip(discard), WhenFull: Block, BlockTime: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

func BenchmarkLog(b *testing.B) {
	client := newBenchClient(b)
	attrs := []slog.Attr{slog.Int("order", 4711), slog.String("user", "u7"), slog.Duration("took", time.Second)}
	b.ReportAllocs()
	for b.Loop() {
		client.Log(Record{Level: LevelError, Message: "payment failed", Attrs: attrs})
	}
}

func BenchmarkSlog(b *testing.B) {
	client := newBenchClient(b)
	logger := slog.New(client.Handler(nil)).With("request", "4bf92f3577b34da6a3ce929d0e0e4736")
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		logger.LogAttrs(ctx, slog.LevelError, "payment failed",
			slog.Int("order", 4711), slog.String("user", "u7"), slog.Duration("took", time.Second))
	}
}

func BenchmarkSlogParallel(b *testing.B) {
	client := newBenchClient(b)
	logger := slog.New(client.Handler(nil)).With("request", "4bf92f3577b34da6a3ce929d0e0e4736")
	ctx := context.Background()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			logger.LogAttrs(ctx, slog.LevelError, "payment failed",
				slog.Int("order", 4711), slog.String("user", "u7"), slog.Duration("took", time.Second))
		}
	})
}

func BenchmarkSlogOtherTypes(b *testing.B) {
	client := newBenchClient(b)
	logger := slog.New(client.Handler(&slog.HandlerOptions{AddSource: true}))
	ctx := context.Background()
	failed := errors.New("failed")
	b.ReportAllocs()
	for b.Loop() {
		logger.LogAttrs(ctx, slog.LevelError, "payment failed", slog.Any("error", failed), slog.Any("items", []string{"a", "b"}))
	}
}
