package odd

import (
	"fmt"
	"reflect"
	"slices"
)

// Methods calls every method of a value but those that are named, with what arg returns for each parameter, and goes over the
// iterators that they return. A parameter for which arg has nothing is an error; a variadic one is given one value.
func Methods(value any, but []string, arg func(method string, of reflect.Type) any) error {
	v := reflect.ValueOf(value)
	for i := range v.NumMethod() {
		name := v.Type().Method(i).Name
		if slices.Contains(but, name) {
			continue
		}
		var args []reflect.Value
		method := v.Method(i)
		for n := range method.Type().NumIn() {
			in := method.Type().In(n)
			if method.Type().IsVariadic() && n == method.Type().NumIn()-1 {
				in = in.Elem()
			}
			a := arg(name, in)
			if a == nil {
				return fmt.Errorf("%s takes a %v: say what to call it with", name, in)
			}
			args = append(args, reflect.ValueOf(a))
		}
		for _, result := range method.Call(args) {
			if result.Type().CanSeq() && result.Kind() == reflect.Func {
				for range result.Seq() {
					break
				}
			}
		}
	}
	return nil
}
