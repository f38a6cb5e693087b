package tso

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// bigtableSession is the column of a session's row, in the family of the record.
const bigtableSession = "session"

// sessionPrefix is how the keys of the rows begin in which the sessions of an oracle are kept, one
// each; the id follows. The first byte occurs in no UTF-8, so no oracle's record and no other row of
// the table has such a key. The name comes with its length: one oracle's prefix never begins
// another's.
func sessionPrefix(name string) string {
	return fmt.Sprintf("\xffsession:%03d:%s:", len(name), name)
}

func (r *bigtableRow) AddSession(ctx context.Context, id string) error {
	set := bigtable.NewMutation()
	set.Set(BigtableFamily, bigtableSession, bigtableTimestamp, nil)
	return r.table.Apply(ctx, sessionPrefix(r.name)+id, set)
}

func (r *bigtableRow) RemoveSessions(ctx context.Context, ids ...string) error {
	rows := make([]string, len(ids))
	removals := make([]*bigtable.Mutation, len(ids))
	for i, id := range ids {
		rows[i] = sessionPrefix(r.name) + id
		removals[i] = bigtable.NewMutation()
		removals[i].DeleteRow()
	}
	failed, err := r.table.ApplyBulk(ctx, rows, removals)
	return errors.Join(append(failed, err)...)
}

func (r *bigtableRow) Sessions(ctx context.Context) (ids []string, err error) {
	prefix := sessionPrefix(r.name)
	err = r.table.ReadRows(ctx, bigtable.PrefixRange(prefix), func(row bigtable.Row) bool {
		ids = append(ids, row.Key()[len(prefix):])
		return true
	}, bigtable.LimitRows(record.MaxStoredSessions), bigtable.RowFilter(bigtable.ChainFilters(
		bigtable.ColumnRangeFilter(BigtableFamily, bigtableSession, bigtableSession+"\x00"), bigtable.StripValueFilter())))
	return ids, err
}
