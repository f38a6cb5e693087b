package catalog

import (
	"cmp"
	"encoding/hex"
	"hash/fnv"
	"slices"

	"github.com/gopercolator/percolator/percolator/model"
)

// ObservedColumns lists the observed and weak columns of tables, by table and name.
func ObservedColumns(tables []model.Table) (columns []model.Cell) {
	for _, t := range tables {
		for _, name := range slices.Concat(t.Observed, t.Weak) {
			columns = append(columns, model.Cell{Table: t.Name, Column: name})
		}
	}
	slices.SortFunc(columns, func(a, b model.Cell) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Column, b.Column))
	})
	return columns
}

// Fingerprint identifies a list of columns. Workers tell it (model.WorkerInfo).
func Fingerprint(columns []model.Cell) string {
	h := fnv.New64a()
	for _, c := range columns {
		_, _ = h.Write([]byte(c.Table + "\x00" + c.Column + "\xff"))
	}
	return hex.EncodeToString(h.Sum(nil))
}
