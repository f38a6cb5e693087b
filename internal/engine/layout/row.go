package layout

import (
	"cmp"
	"strings"
)

// RowID names a row of a table.
type RowID struct{ Table, Key string }

// Compare orders rows by table, then by key.
func (r RowID) Compare(other RowID) int {
	return cmp.Or(strings.Compare(r.Table, other.Table), strings.Compare(r.Key, other.Key))
}

// Row is one row as the store answered: a snapshot, since Bigtable reads rows atomically. The zero
// Row is a row that is missing, or of which nothing was asked for.
type Row struct {
	Key   string
	Items []Item // by family, then column, newest first
}

// Item is one stored cell: a version of a column in one family.
type Item struct {
	Family, Column string
	Timestamp      int64  // as stored, in µs; FromCell decodes it
	Value          []byte // never nil
}

// Size is the number of bytes in the values.
func (r Row) Size() (n int) {
	for i := range r.Items {
		n += len(r.Items[i].Value)
	}
	return n
}

// Missing reports whether nothing was found.
func (r Row) Missing() bool { return len(r.Items) == 0 }

// Of is the items of one family.
func (r Row) Of(family string) []Item {
	from := 0
	for from < len(r.Items) && r.Items[from].Family != family {
		from++
	}
	to := from
	for to < len(r.Items) && r.Items[to].Family == family {
		to++
	}
	return r.Items[from:to]
}
