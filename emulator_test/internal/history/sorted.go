package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// sortedKeys lists the keys of a map in order, so that reports repeat.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// findings are the anomalies that a judge has found.
type findings struct{ all []Anomaly }

func (f *findings) add(k Kind, format string, args ...any) {
	f.all = append(f.all, Anomaly{Kind: k, Text: fmt.Sprintf(format, args...)})
}

func (f *findings) sorted() []Anomaly {
	slices.SortStableFunc(f.all, func(a, b Anomaly) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
	})
	return f.all
}
