package bucksaw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/slogtest"
	"time"
)

// newHandlerStub returns a client, and a function that returns the objects of all records.
func newHandlerStub(t *testing.T) (*Client, func() []map[string]any) {
	t.Helper()
	s := newStub(t, acceptAll)
	client, _ := newTestClient(t, Config{Endpoints: []string{s.URL}})
	return client, func() []map[string]any {
		t.Helper()
		flush(t, client)
		var objects []map[string]any
		for _, request := range s.received() {
			for line := range strings.Lines(request.body) {
				objects = append(objects, parse(t, line))
			}
		}
		return objects
	}
}

func TestHandlerPassesSlogtest(t *testing.T) {
	client, objects := newHandlerStub(t)
	err := slogtest.TestHandler(client.Handler(nil), func() []map[string]any {
		all := objects()
		for _, object := range all {
			object[slog.MessageKey] = object["message"]
			delete(object, "message")
		}
		return all
	})
	if err != nil {
		t.Error(err)
	}
}

type secret string

func (secret) LogValue() slog.Value { return slog.StringValue("hidden") }

type group2 struct{ inner slog.LogValuer }

func (g group2) LogValue() slog.Value {
	return slog.GroupValue(slog.Any("inner", g.inner), slog.Int("n", 1))
}

type endlessValuer struct{}

func (e endlessValuer) LogValue() slog.Value { return slog.AnyValue(e) }

type deepValuer struct{}

func (d deepValuer) LogValue() slog.Value { return slog.GroupValue(slog.Any("d", d)) }

type wideValuer struct{}

func (w wideValuer) LogValue() slog.Value { return slog.GroupValue(slog.Any("a", w), slog.Any("b", w)) }

type panicValuer struct{}

func (panicValuer) LogValue() slog.Value { panic("in LogValue") }

// logged returns the object of a record, without its time.
func logged(t *testing.T, options *slog.HandlerOptions, log func(*slog.Logger)) map[string]any {
	t.Helper()
	client, objects := newHandlerStub(t)
	log(slog.New(client.Handler(options)))
	all := objects()
	if len(all) != 1 {
		t.Fatalf("got %v", all)
	}
	delete(all[0], "time")
	return all[0]
}

func checkLogged(t *testing.T, options *slog.HandlerOptions, log func(*slog.Logger), want map[string]any) {
	t.Helper()
	if got := logged(t, options, log); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestHandlerGroups(t *testing.T) {
	type object = map[string]any
	checkLogged(t, nil, func(l *slog.Logger) {
		l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").WithGroup("i").With("c", 3).Warn("m", "d", 4,
			slog.Group("", "e", 5), slog.Group("j", "f", 6), slog.Group("empty"), slog.Attr{})
	}, object{"message": "m", "level": "warn", "a": 1.0, "g": object{"b": 2.0, "h": object{"i": object{
		"c": 3.0, "d": 4.0, "e": 5.0, "j": object{"f": 6.0}}}}})
	// Groups without attributes are left out, also if others have the same beginning.
	checkLogged(t, nil, func(l *slog.Logger) {
		g := l.WithGroup("g").With("a", 1)
		g.WithGroup("x").With(slog.Group("empty"))
		g.WithGroup("y").WithGroup("z").Info("m", slog.Group("empty", slog.Group("too")))
	}, object{"message": "m", "level": "info", "g": object{"a": 1.0}})
	checkLogged(t, nil, func(l *slog.Logger) { l.WithGroup("g").With(slog.Group("empty")).Info("m") },
		object{"message": "m", "level": "info"})
	checkLogged(t, nil, func(l *slog.Logger) { l.WithGroup("time").With("time", 1).WithGroup("level").Info("m", "", 2) },
		object{"message": "m", "level": "info", "time_": object{"time": 1.0, "level": object{"_": 2.0}}})
}

func TestHandlersShareNoMemory(t *testing.T) {
	client, objects := newHandlerStub(t)
	base := slog.New(client.Handler(nil)).With("a", 1).WithGroup("g").WithGroup("h").WithGroup("k")
	first, second := base.With("b", 1), base.With("c", 2)
	third, fourth := base.WithGroup("i"), base.WithGroup("j")
	first.Info("1")
	second.Info("2")
	third.Info("3", "d", 3)
	fourth.Info("4", "d", 4)
	type object = map[string]any
	wants := []object{{"b": 1.0}, {"c": 2.0}, {"i": object{"d": 3.0}}, {"j": object{"d": 4.0}}}
	for i, got := range objects() {
		if !reflect.DeepEqual(got["g"].(object)["h"].(object)["k"], wants[i]) {
			t.Errorf("got %v, want %v", got, wants[i])
		}
	}
}

func TestHandlerLogValuers(t *testing.T) {
	type object = map[string]any
	got := logged(t, nil, func(l *slog.Logger) {
		l.Info("m", "secret", secret("x"), "group", group2{secret("y")}, "endless", endlessValuer{}, "panic", panicValuer{},
			"nil", slog.LogValuer((*group2)(nil)))
	})
	want := object{
		"message": "m", "level": "info", "secret": "hidden", "group": object{"inner": "hidden", "n": 1.0},
		"endless": "!ERROR: LogValue returned a LogValuer 100 times", "panic": "!ERROR: in LogValue", "nil": nil,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	deep := logged(t, nil, func(l *slog.Logger) { l.Info("m", "deep", deepValuer{}) })
	for depth := 0; ; depth++ {
		next, isObject := deep["d"].(object)
		if first, ok := deep["deep"].(object); ok {
			next, isObject = first, true
		}
		if !isObject {
			if text, _ := deep["d"].(string); !strings.HasPrefix(text, "!ERROR: ") || depth < 10 {
				t.Errorf("at depth %d: %v", depth, deep)
			}
			break
		}
		deep = next
	}
}

func TestGroupThatContainsItselfTwice(t *testing.T) {
	got := logged(t, nil, func(l *slog.Logger) { l.Info("m", "wide", wideValuer{}) })
	if got["bucksaw.dropped_attributes"] == nil {
		t.Errorf("got %v", got)
	}
}

func TestHandlerSource(t *testing.T) {
	got := logged(t, &slog.HandlerOptions{AddSource: true}, func(l *slog.Logger) { l.Info("m") })
	source, _ := got["source"].(map[string]any)
	if file, _ := source["file"].(string); !strings.HasSuffix(file, "/handler_test.go") || source["line"].(float64) < 100 ||
		!strings.Contains(source["function"].(string), "TestHandlerSource") {
		t.Errorf("got %v", got)
	}
}

func TestHandlerReplaceAttr(t *testing.T) {
	type object = map[string]any
	type call struct{ groups, key string }
	var calls []call
	options := &slog.HandlerOptions{AddSource: true, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		calls = append(calls, call{strings.Join(groups, "."), a.Key})
		switch {
		case len(groups) == 0 && a.Key == slog.LevelKey:
			a.Value = slog.StringValue("NOTICE")
		case len(groups) == 0 && a.Key == slog.MessageKey:
			a.Key = "message"
		case a.Key == slog.SourceKey:
			a.Value = slog.StringValue("source")
		case a.Key == "removed":
			return slog.Attr{}
		case a.Key == "panic":
			panic("in ReplaceAttr")
		case a.Key == "renamed":
			return slog.Int("new", 1)
		}
		return a
	}}
	checkLogged(t, options, func(l *slog.Logger) {
		l.With("removed", 1).WithGroup("g").With("renamed", 2).WithGroup("only").Info("m", "removed", 3,
			slog.Group("h", "removed", 4), "panic", 5, slog.Group("i", "x", 6))
	}, object{"message": "m", "level": "NOTICE", "source": "source", "g": object{"new": 1.0,
		"only": object{"panic": "!ERROR: in ReplaceAttr", "i": object{"x": 6.0}}}})
	want := []call{{"", "removed"}, {"g", "renamed"}, {"", "time"}, {"", "level"}, {"", "source"}, {"", "msg"},
		{"g.only", "removed"}, {"g.only.h", "removed"}, {"g.only", "panic"}, {"g.only.i", "x"}}
	if !reflect.DeepEqual(calls, want) {
		t.Errorf("got %v, want %v", calls, want)
	}

	// Without time, level and message a record is still a record.
	client, objects := newHandlerStub(t)
	slog.New(client.Handler(&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.MessageKey {
			return slog.Int("msg", 1)
		}
		return slog.Attr{}
	}})).Info("m", "a", 1)
	if got := objects(); !reflect.DeepEqual(got, []object{{"message": "", "msg": 1.0}}) {
		t.Errorf("got %v", got)
	}
	// A time that is replaced by another time is that of the record.
	client, objects = newHandlerStub(t)
	slog.New(client.Handler(&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			a.Value = slog.TimeValue(time.Unix(1, 0))
		}
		return a
	}})).Info("m")
	if got := objects(); got[0]["time"] != "1970-01-01T00:00:01.000000000Z" {
		t.Errorf("got %v", got)
	}
}

func TestHandlerLimitsOfAttributes(t *testing.T) {
	attrs := make([]any, 0, 300)
	for range 300 {
		attrs = append(attrs, slog.Int("a", 1))
	}
	// Of 300 in a group of With, 250 remain. Nothing is left for the record and its own group.
	client, _ := newTestClient(t, Config{})
	handler := slog.New(client.Handler(nil)).WithGroup("g").With(attrs...).WithGroup("h").Handler().(*handler)
	if handler.position.attributes != attributesMax || handler.position.dropped != 50 {
		t.Errorf("got %+v", handler.position)
	}
	got := logged(t, nil, func(l *slog.Logger) { l.WithGroup("g").With(attrs...).WithGroup("h").Info("m", "b", 1, "c", 2) })
	if got["bucksaw.dropped_attributes"] != 52.0 || len(got) != 4 {
		t.Errorf("got %v", got)
	}
	// The names of groups count.
	got = logged(t, nil, func(l *slog.Logger) {
		l.WithGroup(strings.Repeat("g", 250)).Info("m", "1234", 1, "12345", 2, slog.Group(strings.Repeat("h", 300), "a", 1))
	})
	if want := (map[string]any{"1234": 1.0}); !reflect.DeepEqual(got[strings.Repeat("g", 250)], want) ||
		got["bucksaw.dropped_attributes"] != 2.0 {
		t.Errorf("got %v", got)
	}
}

// Objects count wherever they come from, and the largest become text.
func TestHandlerLimitsOfObjects(t *testing.T) {
	object := func(members int) map[string]int {
		made := map[string]int{}
		for i := range members {
			made[fmt.Sprintf("k%03d", i)] = i
		}
		return made
	}
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.MessageKey {
			return slog.Any("first", object(90))
		}
		return a
	}}
	got := logged(t, options, func(l *slog.Logger) {
		l.With("a", 1, "second", object(110)).WithGroup("g").With("third", object(60)).Info("m", "fourth", object(100), "b", 2)
	})
	group, _ := got["g"].(map[string]any)
	second, _ := got["second"].(string)
	fourth, _ := group["fourth"].(string)
	if len(parse(t, second)) != 110 || len(parse(t, fourth)) != 100 || group["b"] != 2.0 {
		t.Errorf("got %v", got)
	}
	if len(got["first"].(map[string]any)) != 90 || len(group["third"].(map[string]any)) != 60 {
		t.Errorf("got %v", got)
	}
}

func TestHandlerLevelsAndErrors(t *testing.T) {
	client, _ := newTestClient(t, Config{BufferBytes: 100})
	h := client.Handler(nil)
	ctx := context.Background()
	if h.Enabled(ctx, slog.LevelDebug) || !h.Enabled(ctx, slog.LevelInfo) {
		t.Error("the default is not info")
	}
	if client.Handler(&slog.HandlerOptions{Level: slog.LevelError}).Enabled(ctx, slog.LevelWarn) {
		t.Error("a warning is enabled")
	}
	if err := h.Handle(ctx, slog.NewRecord(time.Now(), 0, strings.Repeat("m", 100), 0)); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	_ = client.Close(ctx)
	if err := h.Handle(ctx, slog.NewRecord(time.Now(), 0, "m", 0)); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}
