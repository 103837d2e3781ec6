package guard

import (
	"fmt"
	"reflect"
)

// Text formats a key or the value of a panic. Of one that refers to what another goroutine may be
// writing, it formats the type: to read a map meanwhile would end the process. Of a pointer it
// formats the address, too. A String method of the value runs apart; if it calls runtime.Goexit,
// Text returns the type.
func Text(v any) (text string) {
	text = fmt.Sprintf("%T", v)
	Apart(func() {
		switch v.(type) {
		case nil, fmt.Stringer, error:
			text = fmt.Sprint(v)
			return
		}
		switch value := reflect.ValueOf(v); {
		case value.Kind() == reflect.Pointer:
			text = fmt.Sprintf("%T(%p)", v, v)
		case shallow(value):
			text = fmt.Sprint(v)
		}
	}, nil)
	return text
}

// shallow reports whether fmt finds nothing in v that can change. Of pointers in v it formats the
// addresses.
func shallow(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return false
	case reflect.Interface:
		return shallow(v.Elem())
	case reflect.Array:
		for i := range v.Len() {
			if !shallow(v.Index(i)) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !shallow(v.Field(i)) {
				return false
			}
		}
	}
	return true
}
