package bucksaw

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// anyText converts a value of any type: to text, or to JSON without spaces between its tokens. It never panics.
func anyText(value any) (text string, isText bool, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			if isNilPointer(value) {
				text, isText, err = "null", false, nil
				return
			}
			err = errors.New(panicText(cause))
		}
	}()
	switch value := value.(type) {
	case nil:
		return "null", false, nil
	case []byte:
		return string(value), true, nil
	case json.Marshaler:
	case error:
		return value.Error(), true, nil
	}
	if !isOfJSON(reflect.TypeOf(value).Kind()) {
		return fmt.Sprint(value), true, nil
	}
	text, err = marshal(value)
	var unsupportedValue *json.UnsupportedValueError
	var unsupportedType *json.UnsupportedTypeError
	if errors.As(err, &unsupportedValue) || errors.As(err, &unsupportedType) {
		budget := substituteValuesMax
		if substitute, ok := substituted(reflect.ValueOf(value), substituteDepthMax, &budget); ok {
			if text, err := marshal(substitute); err == nil {
				return text, false, nil
			}
		}
	}
	return text, false, err
}

func marshal(value any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return string(bytes.TrimSuffix(out.Bytes(), []byte{'\n'})), nil
}

// isOfJSON is false for the kinds that encoding/json refuses.
func isOfJSON(kind reflect.Kind) bool {
	switch kind {
	case reflect.Complex64, reflect.Complex128, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return false
	default:
		return true
	}
}

// Limits of a value in which some parts are replaced. A value that contains itself has no end.
const (
	substituteValuesMax = 100_000
	substituteDepthMax  = 32
)

// substituted returns a copy of maps, slices and arrays in which numbers and types that JSON cannot have are text.
// Structs stay as they are.
func substituted(value reflect.Value, depthLeft int, budget *int) (any, bool) {
	*budget--
	if depthLeft == 0 || *budget < 0 {
		return nil, false
	}
	if value.IsValid() && value.CanInterface() {
		switch value.Interface().(type) {
		case json.Marshaler, []byte:
			return value.Interface(), true
		}
	}
	switch kind := value.Kind(); {
	case kind == reflect.Invalid:
		return nil, true
	case kind == reflect.Interface || kind == reflect.Pointer:
		if value.IsNil() {
			return nil, true
		}
		return substituted(value.Elem(), depthLeft-1, budget)
	case kind == reflect.Float32 || kind == reflect.Float64:
		if number := value.Float(); math.IsNaN(number) || math.IsInf(number, 0) {
			return strconv.FormatFloat(number, 'g', -1, 64), true
		}
	case kind == reflect.Slice || kind == reflect.Array:
		items := make([]any, value.Len())
		for i := range items {
			item, ok := substituted(value.Index(i), depthLeft-1, budget)
			if !ok {
				return nil, false
			}
			items[i] = item
		}
		return items, true
	case kind == reflect.Map && value.Type().Key().Kind() == reflect.String:
		members := make(map[string]any, value.Len())
		for name, member := range value.Seq2() {
			member, ok := substituted(member, depthLeft-1, budget)
			if !ok {
				return nil, false
			}
			members[name.String()] = member
		}
		return members, true
	case !isOfJSON(kind):
		return fmt.Sprint(value.Interface()), true
	}
	return value.Interface(), true
}

func isNilPointer(value any) bool {
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// panicText returns the reason of a panic. Its own conversion may panic too.
func panicText(cause any) (text string) {
	defer func() {
		if recover() != nil {
			text = "panic"
		}
	}()
	if err, ok := cause.(error); ok {
		return err.Error()
	}
	return fmt.Sprint(cause)
}
