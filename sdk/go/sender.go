package bucksaw

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// sender sends batches, one at a time, in their order.
type sender struct {
	buffer      *buffer
	reports     *reporter
	requests    *requester
	urls        []string
	requestTime time.Duration
	now         func() time.Time
	random      func() float64 // From 0 to 1.

	closing <-chan struct{} // Closed when the client is being closed.
	endings chan struct{}   // Closed when run has returned.

	endpoint   int // Index of the endpoint of the next attempt.
	compressor *gzip.Writer
	compressed []byte // Used again for each batch.
}

// run sends until the buffer is closed and empty, or the context ends.
func (s *sender) run(ctx context.Context) {
	defer close(s.endings)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		batch, wait, ended := s.buffer.next()
		if ended {
			return
		}
		if batch != nil {
			s.deliver(ctx, batch)
			continue
		}
		var expired <-chan time.Time
		if wait > 0 {
			timer.Reset(wait)
			expired = timer.C
		}
		select {
		case <-s.buffer.wake:
		case <-expired:
		case <-ctx.Done():
		}
	}
}

// deliver sends a batch until it leaves the buffer, or the context ends.
func (s *sender) deliver(ctx context.Context, batch *batch) {
	body := s.body(batch)
	failures, wasClosing := 0, s.isClosing()
	for n := 1; ; n++ {
		if s.now().Sub(batch.created.Round(0)) > keyAgeMax { // Without the monotonic clock, which stops while a machine sleeps.
			s.drop(batch, body, KindTooOld, errors.New("not acknowledged for six days"),
				func(d *Dropped) { d.TooOld += batch.records })
			return
		}
		if n > 1 {
			s.buffer.retried()
		}
		judged := s.attempt(ctx, batch, body)
		switch judged.result {
		case acknowledged:
			s.acknowledge(batch, body, judged)
			return
		case refused:
			s.drop(batch, body, KindRefused, judged.err, func(d *Dropped) { d.Refused += batch.records })
			return
		}
		if ctx.Err() != nil {
			return
		}
		kind := KindRetry
		if judged.result == denied {
			kind = KindDenied
			s.buffer.denied()
		}
		s.reports.add(kind, batch.records, s.requests.withProblems(judged.err))
		s.endpoint = (s.endpoint + 1) % len(s.urls)
		failures++
		if s.isClosing() {
			if !wasClosing {
				failures, wasClosing = 1, true
			}
			judged.retryAfter = 0
		}
		if !s.wait(ctx, pause(failures, s.random(), judged.retryAfter), !wasClosing) {
			return
		}
	}
}

func (s *sender) acknowledge(batch *batch, body *body, judged outcome) {
	rejected := min(judged.rejected, batch.records)
	s.buffer.leave(s.reclaim(body), func(stats *Stats) {
		stats.Acknowledged += batch.records - rejected
		stats.Rejected += rejected
	})
	if rejected > 0 {
		s.reports.add(KindRejected, rejected, judged.err)
	}
}

func (s *sender) drop(batch *batch, body *body, kind Kind, err error, count func(*Dropped)) {
	s.buffer.leave(s.reclaim(body), func(stats *Stats) { count(&stats.Dropped) })
	s.reports.add(kind, batch.records, err)
}

// isClosing says whether the client is being closed. Its time is short then, so the pauses begin anew with the shortest one.
func (s *sender) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// wait returns false if the context ends first. It ends early when the client begins to close, if endsWithClosing.
func (s *sender) wait(ctx context.Context, length time.Duration, endsWithClosing bool) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	var closing <-chan struct{}
	if endsWithClosing {
		closing = s.closing
	}
	select {
	case <-timer.C:
	case <-closing:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// body is the body of the requests of one batch, the same in each attempt.
type body struct {
	content []byte
	isGzip  bool
	readers atomic.Int64 // Readers that are not closed. The transport may read after an attempt has ended.
}

type bodyReader struct {
	bytes.Reader
	body   *body
	closed atomic.Bool
}

func (b *body) reader() io.ReadCloser {
	b.readers.Add(1)
	reader := &bodyReader{body: b}
	reader.Reset(b.content)
	return reader
}

func (r *bodyReader) Close() error {
	if !r.closed.Swap(true) {
		r.body.readers.Add(-1)
	}
	return nil
}

// body compresses the lines of a batch, unless they are short.
func (s *sender) body(batch *batch) *body {
	if len(batch.lines) < gzipBytesMin {
		return &body{content: batch.lines}
	}
	out := bytes.NewBuffer(s.compressed[:0])
	s.compressed = nil // Until nothing reads the body any more.
	if s.compressor == nil {
		s.compressor, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // Its only error is an unknown level.
	}
	s.compressor.Reset(out)
	_, err := s.compressor.Write(batch.lines)
	if err = errors.Join(err, s.compressor.Close()); err != nil {
		return &body{content: batch.lines}
	}
	return &body{content: out.Bytes(), isGzip: true}
}

// reclaim takes the memory of a body back, and says whether nothing reads it any more.
func (s *sender) reclaim(body *body) bool {
	if body.readers.Load() != 0 {
		return false
	}
	if body.isGzip {
		s.compressed = body.content
	}
	return true
}

// attempt sends a batch once.
func (s *sender) attempt(ctx context.Context, batch *batch, body *body) outcome {
	ctx, cancel := context.WithTimeout(ctx, s.requestTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.urls[s.endpoint], nil)
	if err != nil {
		return outcome{result: refused, err: err}
	}
	request.Body = body.reader()
	request.GetBody = func() (io.ReadCloser, error) { return body.reader(), nil }
	request.ContentLength = int64(len(body.content))
	request.Header.Set("Content-Type", "application/x-ndjson")
	request.Header.Set("Idempotency-Key", batch.key)
	if body.isGzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	response, err := s.requests.do(request)
	if err != nil {
		return failedAttempt(err)
	}
	defer response.Body.Close()
	content, err := readAtMost(response.Body, answerBytesMax)
	if err != nil {
		if response.StatusCode != http.StatusOK {
			return outcomeOf(response.StatusCode, response.Header, nil) // The status suffices.
		}
		return failedAttempt(err)
	}
	return outcomeOf(response.StatusCode, response.Header, content)
}

// readAtMost reads all, and fails if it is more than bytesMax.
func readAtMost(from io.Reader, bytesMax int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(from, bytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	if int64(len(content)) > bytesMax {
		return nil, fmt.Errorf("%w: it is longer than %d bytes", ErrInvalid, bytesMax)
	}
	return content, nil
}

func randomFraction() float64 { return rand.Float64() }
