package bucksaw

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

type failingText struct{}

func (failingText) MarshalText() ([]byte, error) { return nil, errors.New("no text") }

type failingJSON struct{}

func (failingJSON) MarshalJSON() ([]byte, error) { return []byte("{"), nil }

type panickingError struct{}

func (*panickingError) Error() string { panic(errors.New("in Error")) }

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

type panickingJSON struct{}

func (panickingJSON) MarshalJSON() ([]byte, error) { panic("in MarshalJSON") }

type tree struct{ Next *tree }

func TestValues(t *testing.T) {
	type object = map[string]any
	cycle := map[string]any{}
	cycle["a"], cycle["b"] = cycle, cycle
	var loop tree
	loop.Next = &loop
	date := time.Date(2026, 11, 26, 2, 0, 0, 5, time.FixedZone("", 3600))
	for _, c := range []struct{ value, want any }{
		{int64(math.MinInt64), json.Number("-9223372036854775808")},
		{uint64(math.MaxUint64), json.Number("18446744073709551615")},
		{1e300, json.Number("1e+300")}, {0.1, json.Number("0.1")}, {1e21, json.Number("1e+21")}, {-0.0, json.Number("0")},
		{math.NaN(), "NaN"}, {math.Inf(1), "+Inf"}, {math.Inf(-1), "-Inf"}, {float32(math.Inf(1)), "+Inf"},
		{true, true}, {nil, nil}, {time.Second, json.Number("1000000000")}, {date, "2026-11-26T02:00:00.000000005+01:00"},
		{time.Time{}.AddDate(20000, 0, 0), "20001-01-01T00:00:00Z"},
		{"\xffa\xc3", "\ufffda\ufffd"}, {[]byte("a\xff"), "a\ufffd"}, {"\ud7ff\ue000\U0010ffff", "\ud7ff\ue000\U0010ffff"},
		{errors.New("failed"), "failed"}, {(*nilError)(nil), nil}, {&panickingError{}, "!ERROR: in Error"},
		{panickingJSON{}, "!ERROR: in MarshalJSON"}, {slog.LevelWarn + 1, "WARN+1"},
		{complex(1, 2), "(1+2i)"}, {json.RawMessage(`{ "a" : [1] }`), object{"a": []any{json.Number("1")}}},
		{[]any{math.NaN(), nil, 1}, []any{"NaN", nil, json.Number("1")}},
		{map[string]any{"a": math.Inf(1), "b": []complex64{1}}, object{"a": "+Inf", "b": []any{"(1+0i)"}}},
		{&tree{}, object{"Next": nil}}, {struct{}{}, object{}}, {[]string(nil), nil},
		{map[int]string{1: "a"}, object{"1": "a"}},
	} {
		line := encodeRecord(t, Record{Attrs: []slog.Attr{slog.Any("v", c.value)}})
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.UseNumber()
		var got object
		if err := decoder.Decode(&got); err != nil {
			t.Errorf("%v: %v in %s", c.value, err, line)
		} else if !reflect.DeepEqual(got["v"], c.want) {
			t.Errorf("%v: got %v, want %v", c.value, got["v"], c.want)
		}
	}
	for _, failing := range []any{failingText{}, failingJSON{}, json.RawMessage("{"), cycle, &loop, struct{ F func() }{}} {
		got := parse(t, encodeRecord(t, Record{Attrs: []slog.Attr{slog.Any("v", failing)}}))
		if text, _ := got["v"].(string); !strings.HasPrefix(text, "!ERROR: ") {
			t.Errorf("got %v", got)
		}
	}
	for _, text := range []any{func() {}, make(chan int)} {
		got := parse(t, encodeRecord(t, Record{Attrs: []slog.Attr{slog.Any("v", text)}}))
		if text, _ := got["v"].(string); !strings.HasPrefix(text, "0x") {
			t.Errorf("got %v", got)
		}
	}
}

func TestErr(t *testing.T) {
	got := parse(t, encodeRecord(t, Record{Attrs: []slog.Attr{Err(errors.New("failed")), Err(nil)}}))
	if got["exception.type"] != "*errors.errorString" || got["exception.message"] != "failed" || len(got) != 3 {
		t.Errorf("got %v", got)
	}
}

// TestObjectsBeyondTheLimitsAreText has objects that the node would reject, together with their record.
func TestObjectsBeyondTheLimitsAreText(t *testing.T) {
	many := map[string]map[string]int{"a": {}}
	for n := range 260 {
		many["a"][fmt.Sprint(n)] = n
	}
	long := map[string]any{"x": map[string]int{strings.Repeat("n", 252): 1}}
	short := map[string]any{"x": map[string]int{strings.Repeat("n", 251): 1}}
	got := parse(t, encodeRecord(t, Record{Attrs: []slog.Attr{
		slog.Any("v", many), slog.Any("w", long), slog.Any("u", short), slog.Int("x", 1),
	}}))
	text, _ := got["v"].(string)
	if inner := parse(t, text); len(inner["a"].(map[string]any)) != 260 {
		t.Errorf("got %v", inner)
	}
	if _, isText := got["w"].(string); !isText || got["x"] != 1.0 {
		t.Errorf("got %v", got)
	}
	if _, isObject := got["u"].(map[string]any); !isObject {
		t.Errorf("got %v", got)
	}
}

func TestFlatten(t *testing.T) {
	for _, c := range []struct {
		json              string
		leaves, nameBytes int
	}{
		{`1`, 1, 3},
		{`{}`, 1, 3},
		{`{"a":1}`, 1, 5},
		{`{"a":{"bc":1},"d":"}\\\"{,","e":[{"f":1},{"g":[]}]}`, 3, 8},
		{`{"a\"\u2028\ud83d\ude00":1,"":{"":null}}`, 2, 13},
		{`{"a":{},"b":{"c":true}}`, 2, 7},
		{`[1,{"a":2}]`, 1, 3},
		{`"a{b"`, 1, 3},
		{`{"1":{"2":{"3":{"4":{"5":{"6":{"7":{"8":{"9":1,"10":2}}}}}}}}}`, 1, 19},
	} {
		if got := flatten([]byte(c.json), 3); got.leaves != c.leaves || got.nameBytes != c.nameBytes {
			t.Errorf("%s: got %+v", c.json, got)
		}
	}
}

func TestTruncatedMessages(t *testing.T) {
	for _, message := range []string{
		strings.Repeat("x", 1<<20), strings.Repeat("\x00", 200_000), strings.Repeat("\xff", 2<<20),
		strings.Repeat("\U0001f600", 262_144), strings.Repeat("x", 1<<20-50), strings.Repeat("\"", 600_000),
	} {
		line := encodeRecord(t, Record{Time: time.Unix(0, 1), Message: message, Level: LevelInfo})
		if len(line) > 1<<20 || len(line) <= 1<<20-16 {
			t.Errorf("the line has %d bytes", len(line))
		}
		got := parse(t, line)
		missing := int(got["bucksaw.truncated_bytes"].(float64))
		if want := strings.ToValidUTF8(message[:len(message)-missing], "\ufffd"); utf8.ValidString(message) && got["message"] != want {
			t.Errorf("%d bytes are missing", missing)
		}
	}
	// The longest message that fits is whole.
	empty := len(encodeRecord(t, Record{Time: time.Unix(0, 1)}))
	line := encodeRecord(t, Record{Time: time.Unix(0, 1), Message: strings.Repeat("x", 1<<20-1-empty)})
	if len(line) != 1<<20-1 || strings.Contains(line, "truncated") {
		t.Errorf("the line has %d bytes", len(line))
	}
}

func TestTimes(t *testing.T) {
	for _, at := range []time.Time{
		time.Unix(0, 1), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 2, 28, 23, 0, 0, 120_000_000, time.FixedZone("", -7200)), time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, want := string(appendTime(nil, at)), at.UTC().Format("2006-01-02T15:04:05.000000000Z"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// FuzzStrings compares the encoder with encoding/json.
func FuzzStrings(f *testing.F) {
	for _, seed := range []string{"", "a\"b\\c\n\x00\x7f", "\xff\xc3\xa9\xc3", "\u2028\U0001f600"} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, text string, bytesMax int) {
		var got string
		if err := json.Unmarshal(appendString(nil, text), &got); err != nil {
			t.Fatal(err)
		}
		if want := string([]rune(text)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		start, length := appendStringStart(nil, text, bytesMax)
		if len(start) > max(bytesMax, 0) {
			t.Errorf("%d bytes of %d", len(start), bytesMax)
		}
		if err := json.Unmarshal([]byte(`"`+string(start)+`"`), &got); err != nil || got != string([]rune(text[:length])) {
			t.Errorf("got %q of %q", got, text)
		}
	})
}

// FuzzValues checks that each line is one JSON object within the limits of the node, whatever JSON an attribute has.
func FuzzValues(f *testing.F) {
	f.Add("k", []byte(`{"a":{"b":[1,{"c":"\u007b"}]}}`))
	f.Add("", []byte(`"\ud800"`))
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		line := encodeRecord(t, Record{Attrs: []slog.Attr{
			slog.Any(name, json.RawMessage(text)), slog.Group(name, slog.Any(name, text)),
		}})
		parse(t, line)
		if strings.ContainsAny(line, "\n\r") {
			t.Errorf("%q has a line end", line)
		}
	})
}
