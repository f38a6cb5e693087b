package history

import "fmt"

// Index judges an index against the table that it is of, both read at one snapshot.
type Index struct {
	Name   string
	Unique bool

	values  map[string]string // by row
	entries map[indexEntry]int
}

type indexEntry struct{ value, row string }

func (e indexEntry) String() string { return fmt.Sprintf("%q → %s", e.value, e.row) }

// AddRow adds a row whose indexed column has a value.
func (x *Index) AddRow(row, value string) {
	if x.values == nil {
		x.values = map[string]string{}
	}
	x.values[row] = value
}

// AddEntry adds an entry of the index.
func (x *Index) AddEntry(value, row string) {
	if x.entries == nil {
		x.entries = map[indexEntry]int{}
	}
	x.entries[indexEntry{value, row}]++
}

// Check says where they differ.
func (x *Index) Check() []Anomaly {
	var f findings
	holders := map[string]string{}
	for _, row := range sortedKeys(x.values) {
		value := x.values[row]
		if x.entries[indexEntry{value, row}] == 0 {
			f.add(anomalyIndex, "%s lacks the entry of row %s, which holds %q", x.Name, row, value)
		}
		if other, taken := holders[value]; taken && x.Unique {
			f.add(anomalyUnique, "%s: rows %s and %s both hold %q", x.Name, other, row, value)
		}
		holders[value] = row
	}
	for e, n := range x.entries {
		value, held := x.values[e.row]
		switch {
		case !held || value != e.value:
			f.add(anomalyIndex, "%s has the entry %s, and the row does not hold that", x.Name, e)
		case n > 1:
			f.add(anomalyIndex, "%s has the entry %s %d times", x.Name, e, n)
		}
	}
	return f.sorted()
}
