package store_test

import (
	"reflect"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/store"
)

// TestBackendsCanReadWhatTheyAreAsked: a Backend of another package, such as a simulated store,
// gets queries and mutations. It can only answer them if they tell what they hold.
func TestBackendsCanReadWhatTheyAreAsked(t *testing.T) {
	t.Parallel()
	for _, what := range []reflect.Type{reflect.TypeFor[store.Query](), reflect.TypeFor[*store.Mutation]()} {
		tells := false
		for m := range what.NumMethod() {
			f := what.Method(m).Type
			tells = tells || f.NumIn() == 1 && f.NumOut() > 0 && f.Out(0).Kind() != reflect.Bool
		}
		if s := what; s.Kind() == reflect.Struct {
			for _, f := range reflect.VisibleFields(s) {
				tells = tells || f.IsExported()
			}
		}
		if !tells {
			t.Errorf("%s has no exported field, and no method that tells what it holds: only package store can implement Backend", what)
		}
	}
}
