package store

import (
	"iter"
	"slices"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
)

// RequestKeyBytes bounds the keys of one read: Bigtable takes requests of 512 KiB.
const RequestKeyBytes = 480 << 10

// Rows names the rows of a read; the zero value is all of them.
type Rows struct {
	Keys    []string // these, if not nil
	Ranges  catalog.Ranges
	Reverse bool // ranges are read from the last key to the first; nothing within a row changes
}

// Prefix is where the rows begin with p.
func Prefix(p string) Rows { return In(model.Prefix(p)) }

// From is the rows from a key on.
func From(key string) Rows { return In(model.Between(key, "")) }

// In is the rows of a range.
func In(r model.Range) Rows { return Rows{Ranges: catalog.Ranges{r}} }

// nameable is as many of the ranges as one request may name: those with which the read begins.
func (rows Rows) nameable(rs catalog.Ranges) catalog.Ranges {
	n, bytes := 0, 0
	for n < len(rs) && n < RequestRows {
		next := rs[n]
		if rows.Reverse {
			next = rs[len(rs)-1-n]
		}
		if bytes += len(next.Start) + len(next.End); n > 0 && bytes > RequestKeyBytes {
			break
		}
		n++
	}
	if rows.Reverse {
		return rs[len(rs)-n:]
	}
	return rs[:n]
}

// behind is what is left of a range once the read has come past a key.
func (rows Rows) behind(r model.Range, key string) model.Range {
	if !rows.Reverse {
		r.Start = max(r.Start, key+"\x00")
	} else if r.End == "" || key < r.End {
		r.End = key
	}
	return r
}

// after is what is left of a range once the read has come to the end of another one.
func (rows Rows) after(r, done model.Range) model.Range {
	if rows.Reverse {
		r.End = done.Start
	} else {
		r.Start = done.End
	}
	return r
}

// past is what is left of the rows once a read has come past a key.
func (rows Rows) past(key string) Rows {
	if rows.Keys != nil {
		rows.Keys = slices.DeleteFunc(slices.Clone(rows.Keys), func(k string) bool { return k <= key })
		return rows
	}
	left := rows.behind(model.All(), key)
	rest := catalog.Ranges{left}
	if len(rows.Ranges) > 0 {
		rest = rows.Ranges.Within(left)
	}
	if rows.Ranges = rest; len(rest) == 0 {
		rows.Keys = []string{}
	}
	return rows
}

// none reports that no row is named.
func (rows Rows) none() bool { return rows.Keys != nil && len(rows.Keys) == 0 }

// KeyChunks cuts keys to what one request may name.
func KeyChunks(keys []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for len(keys) > 0 {
			n, bytes := 0, 0
			for n < len(keys) && n < RequestRows && (n == 0 || bytes+len(keys[n]) <= RequestKeyBytes) {
				bytes += len(keys[n])
				n++
			}
			if !yield(keys[:n:n]) {
				return
			}
			keys = keys[n:]
		}
	}
}
