package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// TTLOf is how long a value of a column lives from its commit on; 0: until it is deleted. A column
// that declares none has that of its table.
func (t *TableInfo) TTLOf(column string) time.Duration { return t.life(column).TTL }

// NotifiesExpired reports whether the observers of a column hear that a value of it has expired.
func (t *TableInfo) NotifiesExpired(column string) bool {
	return t.IsObserved[column] && t.life(column).NotifyExpired
}

// life is the declaration with the TTL of a column. That of the table has no name.
func (t *TableInfo) life(column string) model.ColumnSchema {
	if d, ok := t.Declared.Of(column); ok && d.TTL != 0 {
		return d
	}
	return model.ColumnSchema{TTL: t.TTL, NotifyExpired: t.NotifyExpired}
}

// validateNotifyExpired refuses a NotifyExpired of which no observer could ever hear.
func validateNotifyExpired(t *model.Table) error {
	info := &TableInfo{Table: *t, Declared: declarationsOf(t.Columns)}
	observed := map[string]bool{}
	for _, col := range t.Observed {
		observed[info.life(col).Name] = true
	}
	for _, d := range append(slices.Clone(t.Columns), model.ColumnSchema{TTL: t.TTL, NotifyExpired: t.NotifyExpired}) {
		if d.NotifyExpired && (d.TTL == 0 || !observed[d.Name]) {
			what := "the table"
			if d.Name != "" {
				what = fmt.Sprintf("column %q", d.Name)
			}
			return fmt.Errorf("percolator: table %q: %w: NotifyExpired of %s needs a TTL beside it, and an observed column with that TTL", t.Name, model.ErrInvalidArgument, what)
		}
	}
	return nil
}

// DistinctTTLs counts the times for which values of the table live.
func (t *TableInfo) DistinctTTLs() int {
	ttls := map[time.Duration]bool{t.TTL: true}
	for _, d := range t.Columns {
		ttls[cmp.Or(d.TTL, t.TTL)] = true
	}
	return len(ttls)
}
