package bucksaw

import (
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// readVectors reads the examples that all SDKs pass. Numbers stay as they are written.
func readVectors[T any](t *testing.T, file string) T {
	t.Helper()
	text, err := os.ReadFile("../vectors/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var vectors T
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	return vectors
}

type recordVector struct {
	Name          string
	TimeUnixNano  string `json:"time_unix_nano"`
	Message       string
	MessageRepeat *struct {
		Text  string
		Count int
	} `json:"message_repeat"`
	Level      *string
	Attributes [][2]any
	Object     map[string]any
	Truncated  bool
}

func (v recordVector) record(t *testing.T) Record {
	nanoseconds, err := strconv.ParseInt(v.TimeUnixNano, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	record := Record{Time: time.Unix(0, nanoseconds), Message: v.Message}
	if v.MessageRepeat != nil {
		record.Message = strings.Repeat(v.MessageRepeat.Text, v.MessageRepeat.Count)
	}
	if v.Level != nil {
		record.Level = Level(slices.Index(levelNames[:], *v.Level))
	}
	for _, attribute := range v.Attributes {
		record.Attrs = append(record.Attrs, slog.Any(attribute[0].(string), attribute[1]))
	}
	return record
}

// encodeRecord returns the line of a record without its line end.
func encodeRecord(t *testing.T, record Record) string {
	t.Helper()
	e := newEncoder()
	defer e.release()
	e.begin(record.Time, record.Message, record.Level.String())
	for _, attr := range record.Attrs {
		e.attr(attr)
	}
	line, err := e.end()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(line), "\n")
}

func parse(t *testing.T, line string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(line), &object); err != nil {
		t.Fatalf("%v in %.200s", err, line)
	}
	return object
}

func TestVectorsOfRecords(t *testing.T) {
	for _, v := range readVectors[[]recordVector](t, "records.json") {
		t.Run(v.Name, func(t *testing.T) {
			record := v.record(t)
			line := encodeRecord(t, record)
			object := parse(t, line)
			if !strings.HasPrefix(line, `{"time":"`) || !strings.HasPrefix(line[strings.Index(line, ","):], `,"message":"`) {
				t.Errorf("time and message are not first: %.100s", line)
			}
			if v.Truncated {
				checkTruncated(t, record.Message, line, object)
			} else if !reflect.DeepEqual(object, v.Object) {
				t.Errorf("got %v, want %v", object, v.Object)
			}
		})
	}
}

func checkTruncated(t *testing.T, whole, line string, object map[string]any) {
	t.Helper()
	message := object["message"].(string)
	if len(line) > 1<<20 || len(line) <= 1<<20-16 {
		t.Errorf("the line has %d bytes", len(line))
	}
	if !strings.HasPrefix(whole, message) || !utf8.ValidString(message) {
		t.Error("the message is no prefix of whole characters")
	}
	if missing := object["bucksaw.truncated_bytes"]; missing != float64(len(whole)-len(message)) {
		t.Errorf("%v bytes are stated, %d are missing", missing, len(whole)-len(message))
	}
}

func TestVectorsOfRequests(t *testing.T) {
	type vector struct {
		Name, Endpoint, Durability, URL string
		Labels                          map[string]string
	}
	for _, v := range readVectors[[]vector](t, "requests.json") {
		client, err := New(Config{
			Endpoints: []string{v.Endpoint}, Durability: Durability(v.Durability), Labels: v.Labels,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := client.sender.urls[0]; got != v.URL {
			t.Errorf("%s: got %s, want %s", v.Name, got, v.URL)
		}
		closeClient(t, client)
	}
}

func TestVectorsOfLabels(t *testing.T) {
	type vector struct {
		Name         string
		Labels, Sent map[string]string
	}
	for _, v := range readVectors[[]vector](t, "labels.json") {
		query, err := ingestQuery(Durable, v.Labels)
		if v.Sent == nil {
			if err == nil {
				t.Errorf("%s: got %s", v.Name, query)
			}
			continue
		}
		parsed, parseErr := url.ParseQuery(query)
		if err != nil || parseErr != nil {
			t.Fatalf("%s: %v, %v", v.Name, err, parseErr)
		}
		var want []string
		for _, name := range slices.Sorted(maps.Keys(v.Sent)) {
			want = append(want, name+"="+v.Sent[name])
		}
		if !slices.Equal(parsed["label"], want) {
			t.Errorf("%s: got %q", v.Name, parsed["label"])
		}
	}
}

func TestVectorsOfKeys(t *testing.T) {
	type vector struct {
		UnixMs    int64  `json:"unix_ms"`
		RandomHex string `json:"random_hex"`
		Key       string
	}
	for _, v := range readVectors[[]vector](t, "keys.json") {
		random, err := hex.DecodeString(v.RandomHex)
		if err != nil {
			t.Fatal(err)
		}
		if got := keyOf(time.UnixMilli(v.UnixMs), [10]byte(random)); got != v.Key {
			t.Errorf("got %s, want %s", got, v.Key)
		}
	}
}

func TestVectorsOfOutcomes(t *testing.T) {
	type vector struct {
		Name              string
		Status            int
		Headers           map[string]string
		Body              string
		Outcome           string
		Rejected          int64
		RetryAfterSeconds int64 `json:"retry_after_seconds"`
		Error             string
	}
	results := map[string]result{"acknowledged": acknowledged, "retry": retry, "refused": refused, "denied": denied}
	for _, v := range readVectors[[]vector](t, "outcomes.json") {
		header := http.Header{}
		for name, value := range v.Headers {
			header.Set(name, value)
		}
		got := outcomeOf(v.Status, header, []byte(v.Body))
		if want, ok := results[v.Outcome]; !ok || got.result != want || got.rejected != v.Rejected ||
			got.retryAfter != time.Duration(v.RetryAfterSeconds)*time.Second {
			t.Errorf("%s: got %+v", v.Name, got)
		}
		if v.Error != "" && got.err.Error() != v.Error {
			t.Errorf("%s: got the error %q, want %q", v.Name, got.err, v.Error)
		}
	}
}

func TestVectorsOfPauses(t *testing.T) {
	type vector struct {
		Attempt           int
		Random            float64
		RetryAfterSeconds int64   `json:"retry_after_seconds"`
		Milliseconds      float64 `json:"milliseconds"`
	}
	for _, v := range readVectors[[]vector](t, "pauses.json") {
		got := pause(v.Attempt, v.Random, time.Duration(v.RetryAfterSeconds)*time.Second)
		if want := time.Duration(v.Milliseconds * float64(time.Millisecond)); got != want {
			t.Errorf("%+v: got %v", v, got)
		}
	}
}

func TestVectorsOfLevels(t *testing.T) {
	vectors := readVectors[map[string]map[string]string](t, "levels.json")["slog"]
	if len(vectors) == 0 {
		t.Fatal("no vectors of slog")
	}
	var numbers []int
	for text := range maps.Keys(vectors) {
		number, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	for i, number := range numbers {
		end := number + 1
		if i+1 < len(numbers) {
			end = numbers[i+1]
		}
		for between := number; between < end; between++ {
			if got := LevelOf(slog.Level(between)).String(); got != vectors[strconv.Itoa(number)] {
				t.Errorf("%d: got %s", between, got)
			}
		}
	}
}
