package bucksaw

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// newAnswerStub returns a client of a server that answers each call in this way.
func newAnswerStub(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *Client {
	t.Helper()
	s := newStub(t, func(_ int, w http.ResponseWriter, r *http.Request) { answer(w, r) })
	client, _ := newTestClient(t, Config{Endpoints: []string{s.URL}})
	return client
}

// readAll returns the records of an answer, and its error.
func readAll(t *testing.T, client *Client, options QueryOptions) (records []StoredRecord, err error) {
	t.Helper()
	for record, failure := range client.Query(within(t), options) {
		if err != nil {
			t.Error("a pair follows an error")
		}
		if err = failure; err == nil {
			records = append(records, record)
		}
	}
	return records, err
}

type answerVector struct {
	Name    string
	Chunks  []string
	Records []struct {
		ID               string
		TimeUnixNano     int64 `json:"time_unix_nano,string"`
		Labels           map[string]string
		AttributesBase64 map[string]string `json:"attributes_base64"`
		LineBase64       string            `json:"line_base64"`
		Cut              bool
		Unterminated     bool
	}
	End     string
	Matched int64
	Reasons []string
}

func TestVectorsOfAnswers(t *testing.T) {
	for _, v := range readVectors[[]answerVector](t, "answers.json") {
		t.Run(v.Name, func(t *testing.T) {
			client := newAnswerStub(t, func(w http.ResponseWriter, _ *http.Request) {
				for _, chunk := range v.Chunks {
					_, _ = io.WriteString(w, chunk)
					_ = http.NewResponseController(w).Flush()
				}
			})
			stats := QueryStats{Matched: -1}
			records, err := readAll(t, client, QueryOptions{Stats: &stats})
			checkEnd(t, v, err, stats)
			if len(records) != len(v.Records) {
				t.Fatalf("got %d records", len(records))
			}
			for i, got := range records {
				want := v.Records[i]
				for name, value := range got.Attributes {
					got.Attributes[name] = base64.StdEncoding.EncodeToString([]byte(value))
				}
				if got.ID != want.ID || got.Time.UnixNano() != want.TimeUnixNano || !reflect.DeepEqual(got.Labels, want.Labels) ||
					len(got.Attributes) != len(want.AttributesBase64) ||
					len(got.Attributes) > 0 && !reflect.DeepEqual(got.Attributes, want.AttributesBase64) ||
					base64.StdEncoding.EncodeToString(got.Line) != want.LineBase64 ||
					got.Cut != want.Cut || got.Unterminated != want.Unterminated {
					t.Errorf("got %+v, want %+v", got, want)
				}
			}
			if v.End == "partial" {
				if _, err := readAll(t, client, QueryOptions{AllowPartial: true, Stats: &stats}); err != nil || !stats.Partial {
					t.Errorf("got %v, %+v", err, stats)
				}
			}
		})
	}
}

func checkEnd(t *testing.T, v answerVector, err error, stats QueryStats) {
	t.Helper()
	var partial *PartialError
	ok, hasStats := false, true
	switch v.End {
	case "complete":
		ok = err == nil
	case "partial":
		ok = errors.As(err, &partial) && reflect.DeepEqual(partial.Reasons, v.Reasons)
	case "incomplete":
		ok, hasStats = errors.Is(err, ErrIncomplete), false
	case "invalid":
		ok, hasStats = errors.Is(err, ErrInvalid), false
	}
	if !ok || hasStats && stats.Matched != v.Matched || !hasStats && stats.Matched != -1 {
		t.Errorf("%s: got %v and %+v", v.End, err, stats)
	}
}

const statsLine = `{"stats":{"matched":0,"partial":false,"partial_reasons":[]}}` + "\n"

func TestParametersOfQueries(t *testing.T) {
	var got string
	client := newAnswerStub(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.Path + "?" + r.URL.RawQuery
		if r.URL.Path == "/api/v1/count" {
			_, _ = io.WriteString(w, `{"count":7,"stats":{"matched":7}}`)
		} else {
			_, _ = io.WriteString(w, statsLine)
		}
	})
	check := func(want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if _, err := readAll(t, client, QueryOptions{}); err != nil {
		t.Error(err)
	}
	check("/api/v1/query?q=")
	options := QueryOptions{
		Expr: `level=error "a b"`, From: At(time.Unix(0, 1)), To: "15m", Zone: "Europe/Berlin", Limit: 5, NewestFirst: true, After: "id",
	}
	if _, err := readAll(t, client, options); err != nil {
		t.Error(err)
	}
	common := "q=level%3Derror%20%22a%20b%22&from=1970-01-01T00%3A00%3A00.000000001Z&to=15m&tz=Europe%2FBerlin"
	check("/api/v1/query?" + common + "&limit=5&order=desc&after=id")
	var stats QueryStats
	options.Stats = &stats
	if count, err := client.Count(within(t), options); count != 7 || err != nil || stats.Matched != 7 {
		t.Errorf("got %d, %v, %+v", count, err, stats)
	}
	check("/api/v1/count?" + common)
	for _, err := range client.Tail(within(t), TailOptions{Expr: "a", Rate: 5}) {
		if !errors.Is(err, ErrIncomplete) {
			t.Errorf("got %v", err)
		}
	}
	check("/api/v1/tail?q=a&rate=5")
}

func TestRefusedQuery(t *testing.T) {
	client := newAnswerStub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(400)
		_, _ = io.WriteString(w, `{"error":"q: column 2: …"}`)
	})
	var status *StatusError
	_, err := readAll(t, client, QueryOptions{})
	if !errors.As(err, &status) || status.Status != 400 || status.Message != "q: column 2: …" {
		t.Errorf("got %v", err)
	}
	if _, err := client.Count(within(t), QueryOptions{}); !errors.As(err, &status) {
		t.Errorf("got %v", err)
	}
}

func TestReadingTriesEachEndpoint(t *testing.T) {
	dead := newStub(t, acceptAll)
	dead.Close()
	busy := newStub(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	good := newStub(t, func(_ int, w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, statsLine) })
	client, _ := newTestClient(t, Config{Endpoints: []string{dead.URL, busy.URL, good.URL}})
	if _, err := readAll(t, client, QueryOptions{}); err != nil || len(busy.received()) != 1 {
		t.Errorf("got %v", err)
	}
	client, _ = newTestClient(t, Config{Endpoints: []string{busy.URL, dead.URL}})
	var status *StatusError
	if _, err := readAll(t, client, QueryOptions{}); !errors.As(err, &status) {
		t.Errorf("got %v", err)
	}
}

func TestHostileAnswers(t *testing.T) {
	record := `{"id":"a","time":"2026-11-26T02:00:00Z","labels":{},"line":"`
	for _, c := range []struct {
		name, begin string
		fill        byte
		want        error
	}{
		{"endless line", record, 'x', ErrInvalid},
		{"endless blank", "", ' ', ErrInvalid},
		{"deep", "", '[', ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := newAnswerStub(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, c.begin)
				_, _ = io.Copy(w, endless(c.fill))
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			records, err := readAll(t, client, QueryOptions{})
			runtime.ReadMemStats(&after)
			if len(records) != 0 || !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 256<<20 {
				t.Errorf("%d MB were allocated", allocated>>20)
			}
			if _, err := client.Count(within(t), QueryOptions{}); !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, body := range []string{
		"[]\n", "null\n" + `{"stats":5}` + "\n", `{"id":5}` + "\n", record + `","time":"soon"}` + "\n", `{"line_base64":"?"}` + "\n",
		"\x1f\x8b\n", strings.Repeat("[", 1<<20) + "\n",
	} {
		client := newAnswerStub(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		if _, err := readAll(t, client, QueryOptions{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.100q: got %v", body, err)
		}
		if _, err := client.Count(within(t), QueryOptions{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.100q: got %v", body, err)
		}
	}
}

func TestErrorBodyIsBounded(t *testing.T) {
	client := newAnswerStub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(404)
		_, _ = io.Copy(w, endless('x'))
	})
	_, err := readAll(t, client, QueryOptions{})
	if err == nil || err.Error() != "bucksaw: status 404" {
		t.Errorf("got %.200s", err)
	}
}

// TestLeavingTheLoopCancels has an answer without an end. The server notices that the reader has left.
func TestLeavingTheLoopCancels(t *testing.T) {
	left := make(chan struct{}, 3)
	client := newAnswerStub(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"id":"a","time":"2026-11-26T02:00:00Z","labels":{},"line":"l"}`+"\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		left <- struct{}{}
	})
	for record, err := range client.Query(within(t), QueryOptions{}) {
		if err != nil || record.Text() != "l" {
			t.Fatal(record, err)
		}
		break
	}
	<-left
	for event, err := range client.Tail(within(t), TailOptions{}) {
		if err != nil || event.Notice != nil || event.Record.Text() != "l" {
			t.Fatal(event, err)
		}
		break
	}
	<-left
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var last error
	for _, err := range client.Query(ctx, QueryOptions{}) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("got %v", last)
	}
	<-left
}

func TestNotices(t *testing.T) {
	client := newAnswerStub(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"skipped_bytes":5}`+"\n"+`{"skipped_records":6}`+"\n"+`{"later":true}`+"\n"+
			`{"lost":"down","node":"a"}`+"\n"+`{"joined":true,"node":"b"}`+"\n")
	})
	var notices []Notice
	var last error
	for event, err := range client.Tail(within(t), TailOptions{}) {
		if last = err; err == nil {
			notices = append(notices, *event.Notice)
		}
	}
	want := []Notice{{SkippedBytes: 5}, {SkippedRecords: 6}, {Lost: "down", Node: "a"}, {Joined: true, Node: "b"}}
	if !reflect.DeepEqual(notices, want) || !errors.Is(last, ErrIncomplete) {
		t.Errorf("got %+v, %v", notices, last)
	}
}

func TestPartialCount(t *testing.T) {
	client := newAnswerStub(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"count":5,"stats":{"partial":true,"partial_reasons":["node b is down"]}}`)
	})
	var partial *PartialError
	if count, err := client.Count(within(t), QueryOptions{}); count != 5 || !errors.As(err, &partial) {
		t.Errorf("got %d, %v", count, err)
	}
	if count, err := client.Count(within(t), QueryOptions{AllowPartial: true}); count != 5 || err != nil {
		t.Errorf("got %d, %v", count, err)
	}
}

func TestTextOfRecord(t *testing.T) {
	if got := (StoredRecord{Line: []byte("a\xff\xfeb")}).Text(); !strings.HasPrefix(got, "a\ufffd") || !strings.HasSuffix(got, "b") {
		t.Errorf("got %q", got)
	}
}
