package bucksaw

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"
)

// TestMain runs the tests without a token of the environment.
func TestMain(m *testing.M) {
	_ = os.Unsetenv(tokenVariable)
	os.Exit(m.Run())
}

// stub is a server that answers as a test says, and notes the batches that it gets.
type stub struct {
	*httptest.Server
	answer func(attempt int, w http.ResponseWriter, r *http.Request)

	mutex    sync.Mutex
	requests []stubRequest // Guarded by mutex.
}

type stubRequest struct {
	key, encoding, contentType, query, userAgent, authorization string
	body                                                        string // After decompression.
}

func newStub(t *testing.T, answer func(attempt int, w http.ResponseWriter, r *http.Request)) *stub {
	t.Helper()
	s := &stub{answer: answer}
	s.Server = httptest.NewServer(s.handler(t))
	t.Cleanup(s.Close)
	return s
}

func (s *stub) handler(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.answer(s.note(t, r), w, r) })
}

// note reads a request, and returns its number from 1.
func (s *stub) note(t *testing.T, r *http.Request) int {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return 0
	}
	if r.Header.Get("Content-Encoding") == "gzip" {
		reader, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0
		}
		if body, err = io.ReadAll(reader); err != nil {
			t.Error(err)
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.requests = append(s.requests, stubRequest{
		key: r.Header.Get("Idempotency-Key"), encoding: r.Header.Get("Content-Encoding"),
		contentType: r.Header.Get("Content-Type"), query: r.URL.RawQuery, userAgent: r.UserAgent(), authorization: r.Header.Get("Authorization"), body: string(body),
	})
	return len(s.requests)
}

func (s *stub) received() []stubRequest {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]stubRequest(nil), s.requests...)
}

func accept(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"accepted":1,"rejected":0}`)
}

func acceptAll(_ int, w http.ResponseWriter, _ *http.Request) { accept(w) }

// failures collects what a client reports.
type failures struct {
	mutex sync.Mutex
	all   []Error
}

func (f *failures) add(err *Error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.all = append(f.all, *err)
}

// records returns the sum of the records of a kind, and the last cause.
func (f *failures) records(kind Kind) (sum int64, last string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, err := range f.all {
		if err.Kind == kind {
			sum += err.Records
			last = err.Err.Error()
		}
	}
	return sum, last
}

// newTestClient returns a client whose pauses are short, and that is closed at the end of the test.
func newTestClient(t *testing.T, config Config) (*Client, *failures) {
	t.Helper()
	reported := &failures{}
	if config.OnError == nil {
		config.OnError = reported.add
	}
	client, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close(canceled())
		checkInvariant(t, client.Stats())
	})
	return client, reported
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// within is far longer than anything here takes: it only ends a test that would hang.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func flush(t *testing.T, client *Client) {
	t.Helper()
	if err := client.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
}

func closeClient(t *testing.T, client *Client) {
	t.Helper()
	if err := client.Close(within(t)); err != nil {
		t.Fatal(err)
	}
}

func checkInvariant(t *testing.T, s Stats) {
	t.Helper()
	if s.Logged != s.Acknowledged+s.Rejected+s.Dropped.Total()+s.BufferedRecords {
		t.Errorf("the counters do not add up: %+v", s)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for ctx := within(t); !condition(); {
		if ctx.Err() != nil {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
