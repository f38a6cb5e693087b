package percolator

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Names of columns that are more than a filter holds are refused by RowOf, not by the first read.
func TestFieldsWithLongNames(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]error{3: nil, 5: ErrTooLarge} {
		fields := []reflect.StructField{{Name: "K", Type: reflect.TypeFor[string](), Tag: `percolator:",key"`}}
		for i := range n {
			tag := fmt.Sprintf(`percolator:"%d%s"`, i, strings.Repeat("x", 1000))
			fields = append(fields, reflect.StructField{Name: fmt.Sprint("F", i), Type: reflect.TypeFor[string](), Tag: reflect.StructTag(tag)})
		}
		if _, columns, err := rowFields(reflect.StructOf(fields)); !errors.Is(err, want) || err == nil && len(columns) != n {
			t.Errorf("%d names: %v, want %v", n, err, want)
		}
	}
}
