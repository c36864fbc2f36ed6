package bucksaw

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestBatchIsOneRequest(t *testing.T) {
	s := newStub(t, acceptAll)
	client, _ := newTestClient(t, Config{Endpoints: []string{s.URL + "/"}, Labels: map[string]string{"b": "2", "a": "1 1"}})
	client.Log(Record{Message: "one"})
	client.Log(Record{Message: "two", Attrs: []slog.Attr{slog.Int("n", 2)}})
	flush(t, client)

	requests := s.received()
	if len(requests) != 1 || strings.Count(requests[0].body, "\n") != 2 || !strings.HasSuffix(requests[0].body, `,"n":2}`+"\n") {
		t.Fatalf("got %q", requests)
	}
	r := requests[0]
	if r.userAgent != "bucksaw-go/"+Version {
		t.Errorf("got %s", r.userAgent)
	}
	if r.contentType != "application/x-ndjson" || r.encoding != "" || len(r.key) != 36 ||
		r.query != "durability=durable&time_field=time&message_field=message&label=a%3D1%201&label=b%3D2" {
		t.Errorf("got %+v", r)
	}
	if stats := client.Stats(); stats != (Stats{Logged: 2, Acknowledged: 2}) {
		t.Errorf("got %+v", stats)
	}
}

func TestLongBodyIsCompressed(t *testing.T) {
	s := newStub(t, acceptAll)
	client, _ := newTestClient(t, Config{Endpoints: []string{s.URL}})
	for range 3 { // The memory of a body is used again.
		client.Log(Record{Message: strings.Repeat("long ", 1000)})
		flush(t, client)
	}
	requests := s.received()
	if len(requests) != 3 {
		t.Fatalf("got %d requests", len(requests))
	}
	for _, r := range requests {
		if r.encoding != "gzip" || !strings.Contains(r.body, strings.Repeat("long ", 1000)) {
			t.Errorf("got %s and %d bytes", r.encoding, len(r.body))
		}
	}
}

// lateReader is a transport that has an answer before it reads the body, as a transport may.
type lateReader struct{ bodies chan io.ReadCloser }

func (l lateReader) RoundTrip(r *http.Request) (*http.Response, error) {
	l.bodies <- r.Body
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(success)), Request: r}, nil
}

func TestBodyStaysUntilItIsRead(t *testing.T) {
	for _, length := range []int{100, 10_000} { // Without and with compression.
		transport := lateReader{make(chan io.ReadCloser, 10)}
		client, _ := newTestClient(t, Config{Transport: transport})
		texts := []string{strings.Repeat("a", length), strings.Repeat("b", length), strings.Repeat("c", length)}
		for _, text := range texts {
			client.Log(Record{Message: text})
			flush(t, client)
		}
		for _, text := range texts {
			body := <-transport.bodies
			content, err := io.ReadAll(body)
			body.Close()
			if length > gzipBytesMin {
				var reader *gzip.Reader
				if reader, err = gzip.NewReader(bytes.NewReader(content)); err == nil {
					content, err = io.ReadAll(reader)
				}
			}
			if err != nil || !strings.Contains(string(content), text) {
				t.Errorf("got %v, %.200q, want %.10q", err, content, text)
			}
		}
	}
}

func TestBatchIsSealedBySizeAndByRecords(t *testing.T) {
	s := newStub(t, acceptAll)
	client, _ := newTestClient(t, Config{Endpoints: []string{s.URL}, BatchRecords: 10, BatchAge: time.Hour})
	for range 20 {
		client.Log(Record{Message: "m"})
	}
	eventually(t, "two batches by records", func() bool { return len(s.received()) == 2 })

	bySize, _ := newTestClient(t, Config{Endpoints: []string{s.URL}, BatchBytes: 1000, BatchAge: time.Hour})
	for range 20 {
		bySize.Log(Record{Message: strings.Repeat("m", 200)})
	}
	flush(t, bySize)
	for _, r := range s.received()[2:] {
		if len(r.body) > 1000 {
			t.Errorf("a body has %d bytes", len(r.body))
		}
	}
	bySize.Log(Record{Message: strings.Repeat("m", 2000)})
	eventually(t, "a batch of one long line", func() bool {
		requests := s.received()
		return len(requests[len(requests)-1].body) > 2000
	})
}

// checkSameBatch checks that all requests have one key and one body.
func checkSameBatch(t *testing.T, requests []stubRequest) {
	t.Helper()
	for _, r := range requests {
		if r.key != requests[0].key || r.body != requests[0].body || r.query != requests[0].query || r.key == "" {
			t.Errorf("got %q after %q", r, requests[0])
		}
	}
}

func TestRetriesHaveTheSameKeyAndBody(t *testing.T) {
	statuses := []int{408, 429, 500, 502, 503, 504}
	s := newStub(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n <= len(statuses) {
			w.WriteHeader(statuses[n-1])
			_, _ = io.WriteString(w, `{"error":"busy"}`)
			return
		}
		accept(w)
	})
	client, reported := newTestClient(t, Config{Endpoints: []string{s.URL}})
	client.sender.random = func() float64 { return 0 }
	client.Log(Record{Message: strings.Repeat("m", 3000)})
	flush(t, client)
	requests := s.received()
	if len(requests) != len(statuses)+1 {
		t.Fatalf("got %d requests", len(requests))
	}
	checkSameBatch(t, requests)
	if stats := client.Stats(); stats.Retries != int64(len(statuses)) || stats.Acknowledged != 1 {
		t.Errorf("got %+v", stats)
	}
	client.Log(Record{Message: "next"})
	closeClient(t, client)
	requests = s.received()
	if last := requests[len(requests)-1]; last.key == requests[0].key {
		t.Error("two batches have one key")
	}
	if records, last := reported.records(KindRetry); records != int64(len(statuses)) || last != "busy" {
		t.Errorf("reported %d, %q", records, last)
	}
}

// TestBrokenAnswers has a server that breaks the exchange in several ways. The batch is sent until an answer is complete.
func TestBrokenAnswers(t *testing.T) {
	broken := map[string]func(w http.ResponseWriter, r *http.Request){
		"connection closed": func(w http.ResponseWriter, _ *http.Request) { hijack(w).Close() },
		"truncated head": func(w http.ResponseWriter, _ *http.Request) {
			connection := hijack(w)
			_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nContent-")
			connection.Close()
		},
		"truncated body": func(w http.ResponseWriter, _ *http.Request) {
			connection := hijack(w)
			_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"+`{"accepted":1,"rejected":0}`)
			connection.Close()
		},
		"no HTTP": func(w http.ResponseWriter, _ *http.Request) {
			connection := hijack(w)
			_, _ = io.WriteString(connection, "SSH-2.0-OpenSSH_9.9\r\n")
			connection.Close()
		},
		"huge head": func(w http.ResponseWriter, _ *http.Request) {
			connection := hijack(w)
			_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nX: ")
			_, _ = io.Copy(connection, io.LimitReader(endless('x'), 64<<20))
			connection.Close()
		},
		"endless body": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, endless(' ')) },
		"no JSON":      func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"other JSON":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `[{"accepted":1}]`) },
		"no number":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"rejected":0}`) },
		"negative":     func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"accepted":1,"rejected":-1}`) },
		"no answer":    func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"slow body": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Millisecond)
			}
		},
	}
	for name, breaks := range broken {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if n == 1 {
					breaks(w, r)
				} else {
					accept(w)
				}
			})
			config := Config{Endpoints: []string{s.URL}}
			if name == "no answer" || name == "slow body" {
				config.RequestTime = 200 * time.Millisecond
			}
			client, reported := newTestClient(t, config)
			client.Log(Record{Message: "m"})
			flush(t, client)
			requests := s.received()
			if len(requests) < 2 {
				t.Fatalf("got %d requests", len(requests))
			}
			checkSameBatch(t, requests)
			if stats := client.Stats(); stats.Acknowledged != 1 {
				t.Errorf("got %+v", stats)
			}
			closeClient(t, client)
			// net/http itself repeats a request with a key if a kept connection turns out to be closed.
			if records, last := reported.records(KindRetry); records == 0 || last == "" {
				t.Errorf("reported %d, %q", records, last)
			}
		})
	}
}

// TestBrokenRequests has a node that ends the connection within a long body.
func TestBrokenRequests(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.CopyN(io.Discard, connection, 50_000)
			connection.Close()
		}
	}()
	good := newStub(t, acceptAll)
	client, reported := newTestClient(t, Config{Endpoints: []string{"http://" + listener.Addr().String(), good.URL}})
	var sent strings.Builder
	for sent.Len() < 400_000 {
		text := rand.Text() // It does not become much shorter by compression.
		client.Log(Record{Message: text})
		sent.WriteString(text)
	}
	flush(t, client)
	requests := good.received()
	var got strings.Builder
	for _, request := range requests {
		for line := range strings.Lines(request.body) {
			got.WriteString(parse(t, line)["message"].(string))
		}
	}
	if got.String() != sent.String() {
		t.Errorf("got %d bytes in %d requests, sent %d", got.Len(), len(requests), sent.Len())
	}
	closeClient(t, client)
	if records, _ := reported.records(KindRetry); records == 0 {
		t.Error("no attempt failed")
	}
}

func hijack(w http.ResponseWriter) net.Conn {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	return connection
}

// endless is a reader without an end.
type endless byte

func (e endless) Read(out []byte) (int, error) {
	copy(out, bytes.Repeat([]byte{byte(e)}, len(out)))
	return len(out), nil
}

func TestEndpointsRotate(t *testing.T) {
	dead := newStub(t, acceptAll)
	dead.Close()
	busy := newStub(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	good := newStub(t, acceptAll)
	client, _ := newTestClient(t, Config{Endpoints: []string{dead.URL, busy.URL, good.URL}})
	client.Log(Record{Message: "one"})
	flush(t, client)
	client.Log(Record{Message: "two"})
	flush(t, client)
	if len(busy.received()) != 1 || len(good.received()) != 2 || client.Stats().Retries != 2 {
		t.Errorf("got %d and %d requests, %+v", len(busy.received()), len(good.received()), client.Stats())
	}
	checkSameBatch(t, []stubRequest{busy.received()[0], good.received()[0]})
}

func TestRefusedBatchIsDropped(t *testing.T) {
	for _, status := range []int{204, 301, 307, 400, 402, 404, 413, 415, 422, 501} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newStub(t, func(n int, w http.ResponseWriter, _ *http.Request) {
				if n > 1 {
					accept(w)
					return
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
				if status != 204 {
					_, _ = io.WriteString(w, `{"error":"the reason"}`)
				}
			})
			client, reported := newTestClient(t, Config{Endpoints: []string{s.URL}})
			client.Log(Record{Message: "refused"})
			flush(t, client)
			client.Log(Record{Message: "accepted"})
			closeClient(t, client)
			if len(s.received()) != 2 {
				t.Errorf("got %d requests", len(s.received()))
			}
			want := Stats{Logged: 2, Acknowledged: 1, Dropped: Dropped{Refused: 1}}
			if stats := client.Stats(); stats != want {
				t.Errorf("got %+v", stats)
			}
			reason := "the reason"
			if status == 204 {
				reason = "status 204"
			}
			if records, last := reported.records(KindRefused); records != 1 || last != reason {
				t.Errorf("reported %d, %q", records, last)
			}
		})
	}
}

func TestRejectedRecordsAreCounted(t *testing.T) {
	s := newStub(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		rejected := 2
		if n > 1 {
			rejected = 1 << 40 // More than the batch has.
		}
		_, _ = fmt.Fprintf(w, `{"accepted":1,"rejected":%d,"errors":[{"error":"more than 256 attributes"}]}`, rejected)
	})
	client, reported := newTestClient(t, Config{Endpoints: []string{s.URL}})
	for range 2 {
		for range 3 {
			client.Log(Record{Message: "m"})
		}
		flush(t, client)
	}
	closeClient(t, client)
	if stats := client.Stats(); stats != (Stats{Logged: 6, Acknowledged: 1, Rejected: 5}) {
		t.Errorf("got %+v", stats)
	}
	if records, last := reported.records(KindRejected); records != 5 || last != "more than 256 attributes" {
		t.Errorf("reported %d, %q", records, last)
	}
}

// blockedStub answers no request until the function is called.
func blockedStub(t *testing.T) (*stub, func()) {
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	s := newStub(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		<-released
		accept(w)
	})
	t.Cleanup(release)
	return s, release
}

func TestFullBufferDrops(t *testing.T) {
	s, release := blockedStub(t)
	client, reported := newTestClient(t, Config{Endpoints: []string{s.URL}, BufferBytes: 10_000})
	for range 1000 {
		client.Log(Record{Message: strings.Repeat("m", 100)})
	}
	stats := client.Stats()
	if stats.BufferedBytes > 10_000 || stats.BufferedBytes < 9_000 || stats.Dropped.Full != 1000-stats.BufferedRecords {
		t.Errorf("got %+v", stats)
	}
	checkInvariant(t, stats)
	release()
	closeClient(t, client)
	if after := client.Stats(); after.Acknowledged != stats.BufferedRecords || after.BufferedBytes != 0 {
		t.Errorf("got %+v", after)
	}
	if records, _ := reported.records(KindFull); records != stats.Dropped.Full {
		t.Errorf("reported %d of %d", records, stats.Dropped.Full)
	}
}

func TestFullBufferBlocks(t *testing.T) {
	s, release := blockedStub(t)
	client, _ := newTestClient(t, Config{
		Endpoints: []string{s.URL}, BufferBytes: 10_000, WhenFull: Block, BlockTime: time.Hour, BatchAge: time.Hour,
	})
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		for range 1000 {
			client.Log(Record{Message: strings.Repeat("m", 100)})
		}
	}()
	eventually(t, "a full buffer", func() bool { return client.Stats().BufferedBytes > 9_000 })
	release()
	<-logged
	closeClient(t, client)
	if stats := client.Stats(); stats.Acknowledged != 1000 {
		t.Errorf("got %+v", stats)
	}
}

func TestBlockedCallerEndsWithTheBlockTimeAndWithClose(t *testing.T) {
	s, _ := blockedStub(t)
	client, _ := newTestClient(t, Config{
		Endpoints: []string{s.URL}, BufferBytes: 300, WhenFull: Block, BlockTime: time.Millisecond,
	})
	for range 10 {
		client.Log(Record{Message: strings.Repeat("m", 100)})
	}
	if stats := client.Stats(); stats.Dropped.Full != 9 && stats.Dropped.Full != 8 {
		t.Errorf("got %+v", stats)
	}

	patient, _ := newTestClient(t, Config{
		Endpoints: []string{s.URL}, BufferBytes: 300, WhenFull: Block, BlockTime: time.Hour, CloseTime: 10 * time.Millisecond,
	})
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		for range 10 {
			patient.Log(Record{Message: strings.Repeat("m", 100)})
		}
	}()
	eventually(t, "a full buffer", func() bool { return patient.Stats().BufferedBytes > 100 })
	if err := patient.Close(within(t)); err == nil {
		t.Error("Close did not fail")
	}
	<-logged
	if stats := patient.Stats(); stats.Dropped.Closed != 10 {
		t.Errorf("got %+v", stats)
	}
}

func TestRecordLongerThanTheBufferDoesNotBlock(t *testing.T) {
	client, _ := newTestClient(t, Config{BufferBytes: 300, WhenFull: Block, BlockTime: time.Hour})
	client.Log(Record{Message: strings.Repeat("m", 1000)})
	if stats := client.Stats(); stats.Dropped.Full != 1 {
		t.Errorf("got %+v", stats)
	}
}

func TestFlushEndsWithItsContext(t *testing.T) {
	s, release := blockedStub(t)
	client, _ := newTestClient(t, Config{Endpoints: []string{s.URL}})
	client.Log(Record{Message: "m"})
	if err := client.Flush(canceled()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	release()
	flush(t, client)
	flush(t, client) // Nothing is left.
}

func TestCloseDropsTheRest(t *testing.T) {
	s, _ := blockedStub(t)
	client, reported := newTestClient(t, Config{Endpoints: []string{s.URL}, CloseTime: 50 * time.Millisecond})
	client.Log(Record{Message: "m"})
	client.Log(Record{Message: "m"})
	err := client.Close(within(t))
	var failure *Error
	if !errors.As(err, &failure) || failure.Kind != KindClosed || failure.Records != 2 ||
		err.Error() != "bucksaw: 2 records dropped: not acknowledged within the close time of 50ms" {
		t.Errorf("got %v", err)
	}
	if again := client.Close(within(t)); again != err {
		t.Errorf("got %v", again)
	}
	client.Log(Record{Message: "late"})
	if stats := client.Stats(); stats != (Stats{Logged: 3, Dropped: Dropped{Closed: 3}}) {
		t.Errorf("got %+v", stats)
	}
	if records, _ := reported.records(KindClosed); records != 2 {
		t.Errorf("reported %d", records)
	}
	flush(t, client)
}

func TestTooLargeRecordIsDropped(t *testing.T) {
	s := newStub(t, acceptAll)
	client, reported := newTestClient(t, Config{Endpoints: []string{s.URL}})
	long := strings.Repeat("x", 1<<20)
	client.Log(Record{Message: "m", Attrs: []slog.Attr{slog.String("a", long)}})
	client.Log(Record{Message: "m", Attrs: []slog.Attr{slog.String("a", long+long)}})
	client.Log(Record{Message: "m", Attrs: []slog.Attr{slog.Any("a", map[string]string{"b": long})}})
	client.Log(Record{Message: "m"})
	closeClient(t, client)
	if stats := client.Stats(); stats != (Stats{Logged: 4, Acknowledged: 1, Dropped: Dropped{TooLarge: 3}}) {
		t.Errorf("got %+v", stats)
	}
	if records, _ := reported.records(KindTooLarge); records != 3 {
		t.Errorf("reported %d", records)
	}
}

func TestOnErrorMayLogAndPanic(t *testing.T) {
	s := newStub(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) })
	var client *Client
	var calls int
	config := Config{Endpoints: []string{s.URL}, OnError: func(err *Error) {
		if calls++; calls == 1 { // Else a failure follows each failure.
			client.Log(Record{Message: err.Error()})
		}
		panic("in OnError")
	}}
	client, _ = newTestClient(t, config)
	client.Log(Record{Message: "m"})
	eventually(t, "both records refused", func() bool { _ = client.Flush(within(t)); return client.Stats().Dropped.Refused == 2 })
	closeClient(t, client)
}

// TestConcurrentUse is for the race detector: all that a client does at the same time.
func TestConcurrentUse(t *testing.T) {
	s := newStub(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n%3 == 0 {
			w.WriteHeader(503)
			return
		}
		accept(w)
	})
	client, _ := newTestClient(t, Config{Endpoints: []string{s.URL}, BatchRecords: 100, WhenFull: Block, BufferBytes: 100_000})
	var threads sync.WaitGroup
	for range 8 {
		threads.Go(func() {
			for n := range 500 {
				client.Log(Record{Message: "m", Attrs: []slog.Attr{slog.Int("n", n)}})
				checkInvariant(t, client.Stats())
			}
			_ = client.Flush(within(t))
		})
	}
	threads.Wait()
	closeClient(t, client)
	if stats := client.Stats(); stats.Logged != 4000 || stats.BufferedRecords != 0 {
		t.Errorf("got %+v", stats)
	}
}
