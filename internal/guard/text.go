package guard

import (
	"fmt"
	"reflect"
)

// Text formats the value of a panic. Of one that refers to what another goroutine may be
// writing, it formats the type: to read a map meanwhile would end the process.
func Text(v any) string {
	switch v.(type) {
	case nil, fmt.Stringer, error:
	default:
		if !shallow(reflect.TypeOf(v)) {
			return fmt.Sprintf("%T", v)
		}
	}
	return fmt.Sprint(v)
}

// shallow reports whether values of type t refer to nothing that can change.
func shallow(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return shallow(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !shallow(t.Field(i).Type) {
				return false
			}
		}
		return true
	case reflect.Chan, reflect.Func, reflect.Interface, reflect.Map, reflect.Pointer, reflect.Slice, reflect.UnsafePointer:
		return false
	default:
		return true
	}
}
