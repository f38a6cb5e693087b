package percolator_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/gopercolator/percolator/percolator"
)

// The declarations of a schema, and ranges, have the methods that a program calls. How entries of
// an index are laid out and how long a collector drains is the engine's business.
func TestMethodsOfDeclarations(t *testing.T) {
	t.Parallel()
	for v, want := range map[any][]string{
		new(percolator.Schema): nil,
		new(percolator.Table):  nil,
		new(percolator.Index):  nil,
		new(percolator.Timing): nil,
		new(percolator.Range):  nil,
		new(percolator.Type):   {"Check", "Decode", "Encode", "Format", "IsText", "Parse"},

		new(percolator.ColumnSchema): nil,

		new(percolator.ScanOptions): nil,
		new(percolator.Cell):        {"String"},
	} {
		var got []string
		for m := range reflect.TypeOf(v).NumMethod() {
			got = append(got, reflect.TypeOf(v).Method(m).Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%T has the methods %q, want %q", v, got, want)
		}
	}
}
