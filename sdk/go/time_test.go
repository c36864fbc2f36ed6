package bucksaw

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// roundTrip answers requests without a network, so that a test can have a clock of its own.
type roundTrip func(r *http.Request) (status int, retryAfter, body string)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	status, retryAfter, body := f(r)
	if status == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	header := http.Header{}
	header.Set("Retry-After", retryAfter)
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

const success = `{"accepted":1,"rejected":0}`

func TestBatchIsSentAtItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := newTestClient(t, Config{Transport: roundTrip(func(*http.Request) (int, string, string) {
			return 200, "", success
		})})
		for range 3 {
			client.Log(Record{Message: "m"})
			time.Sleep(999 * time.Millisecond)
			client.Log(Record{Message: "m"})
			synctest.Wait()
			if stats := client.Stats(); stats.BufferedRecords != 2 {
				t.Errorf("early: %+v", stats)
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			if stats := client.Stats(); stats.BufferedRecords != 0 {
				t.Errorf("late: %+v", stats)
			}
		}
		closeClient(t, client)
	})
}

func TestPausesGrowAndRetryAfterIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts []time.Time
		answers := []string{"", "", "", "5", "86400", ""}
		client, _ := newTestClient(t, Config{Transport: roundTrip(func(*http.Request) (int, string, string) {
			attempts = append(attempts, time.Now())
			if n := len(attempts); n < len(answers) {
				return 503, answers[n-1], ""
			}
			return 200, "", success
		})})
		client.sender.random = func() float64 { return 1 }
		client.Log(Record{Message: "m"})
		if err := client.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		wants := []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 5 * time.Second, time.Minute}
		for i, want := range wants {
			if got := attempts[i+1].Sub(attempts[i]); got != want {
				t.Errorf("pause %d is %v, want %v", i+1, got, want)
			}
		}
		closeClient(t, client)
	})
}

func TestBatchIsDroppedAfterSixDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		client, reported := newTestClient(t, Config{Transport: roundTrip(func(*http.Request) (int, string, string) {
			return 503, "60", ""
		})})
		client.Log(Record{Message: "m"})
		if err := client.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		if stats := client.Stats(); stats.Dropped.TooOld != 1 {
			t.Errorf("got %+v", stats)
		}
		if age := time.Since(began); age < 6*24*time.Hour || age > 6*24*time.Hour+2*time.Minute {
			t.Errorf("dropped after %v", age)
		}
		closeClient(t, client)
		if records, _ := reported.records(KindTooOld); records != 1 {
			t.Errorf("reported %d", records)
		}
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := newTestClient(t, Config{
			BufferBytes: 200, WhenFull: Block,
			Transport: roundTrip(func(*http.Request) (int, string, string) { return 0, "", "" }),
		})
		check := func(what string, want time.Duration, call func()) {
			t.Helper()
			began := time.Now()
			call()
			if got := time.Since(began); got != want {
				t.Errorf("%s took %v, want %v", what, got, want)
			}
		}
		record := Record{Message: strings.Repeat("m", 100)}
		check("the first record", 0, func() { client.Log(record) })
		check("a record without space", 100*time.Millisecond, func() { client.Log(record) })
		check("Flush", time.Second, func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if err := client.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
		check("Close", 5*time.Second, func() {
			if err := client.Close(context.Background()); err == nil {
				t.Error("Close did not fail")
			}
		})
	})
}

func TestRequestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts []time.Time
		client, _ := newTestClient(t, Config{Transport: roundTrip(func(*http.Request) (int, string, string) {
			if attempts = append(attempts, time.Now()); len(attempts) == 1 {
				return 0, "", ""
			}
			return 200, "", success
		})})
		client.sender.random = func() float64 { return 0 }
		client.Log(Record{Message: "m"})
		flushed := client.Flush(context.Background())
		if flushed != nil || attempts[1].Sub(attempts[0]) != 30*time.Second+50*time.Millisecond {
			t.Errorf("got %v, %v", flushed, attempts)
		}
		closeClient(t, client)
	})
}

// TestCloseTriesAgainAtOnce has a node that is back while the client pauses. The pause would be longer than the close time.
func TestCloseTriesAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		isUp := false
		client, _ := newTestClient(t, Config{Transport: roundTrip(func(*http.Request) (int, string, string) {
			if isUp {
				return 200, "", success
			}
			return 503, "", ""
		})})
		client.sender.random = func() float64 { return 1 }
		client.Log(Record{Message: "m"})
		time.Sleep(time.Minute)
		synctest.Wait()
		isUp = true
		began := time.Now()
		if err := client.Close(context.Background()); err != nil || time.Since(began) != 0 {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

// TestClosingEndsPauses has a node that asks for a minute. While the client closes, the pauses are the shortest ones.
func TestClosingEndsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts []time.Time
		client, _ := newTestClient(t, Config{Transport: roundTrip(func(*http.Request) (int, string, string) {
			if attempts = append(attempts, time.Now()); len(attempts) == 7 {
				return 200, "", success
			}
			return 503, "60", ""
		})})
		client.sender.random = func() float64 { return 1 }
		client.Log(Record{Message: "m"})
		time.Sleep(2*time.Minute + 30*time.Second)
		synctest.Wait()
		if len(attempts) != 3 {
			t.Errorf("%d attempts before closing", len(attempts))
		}
		began := time.Now()
		closeClient(t, client)
		for i, want := range []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond} {
			if got := attempts[3+i].Sub(began); got != want {
				t.Errorf("attempt %d is %v after the beginning, want %v", i+1, got, want)
			}
		}
	})
}

func TestFailuresOfOneKindAreCombined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reports []int64
		client, _ := newTestClient(t, Config{
			BufferBytes: 10, OnError: func(err *Error) { reports = append(reports, err.Records) },
		})
		log := func(records int) {
			for range records {
				client.Log(Record{Message: "longer than the buffer"})
			}
			synctest.Wait()
		}
		log(1)
		log(10)
		time.Sleep(999 * time.Millisecond)
		log(10)
		time.Sleep(2 * time.Millisecond)
		log(7)
		closeClient(t, client)
		if len(reports) != 3 || reports[0] != 1 || reports[1] != 20 || reports[2] != 7 {
			t.Errorf("got %v", reports)
		}
	})
}

// TestFailuresGoToStandardError has no OnError: one line a minute.
func TestFailuresGoToStandardError(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stderr := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = stderr }()
	synctest.Test(t, func(t *testing.T) {
		client, err := New(Config{BufferBytes: 10})
		if err != nil {
			t.Fatal(err)
		}
		log := func(records int) {
			for range records {
				client.Log(Record{Message: "longer than the buffer"})
			}
			synctest.Wait()
		}
		log(1)
		log(10)
		time.Sleep(59 * time.Second)
		log(10)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		closeClient(t, client)
	})
	text, err := os.ReadFile(file.Name())
	want := "bucksaw: 1 record dropped: the buffer is full\nbucksaw: 20 records dropped: the buffer is full\n"
	if err != nil || string(text) != want {
		t.Errorf("got %v, %s", err, text)
	}
}
