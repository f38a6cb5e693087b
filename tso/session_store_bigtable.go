package tso

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/bigtable"
)

// bigtableSession is the column of a session's row, in the family of the record.
const bigtableSession = "session"

// sessionPrefix is how the keys of the rows begin in which the sessions of an oracle
// are kept, one each; the id follows. The first byte occurs in no UTF-8, so that no
// oracle's record has such a key, nor has any other row of the table. The name comes with its
// length: one oracle's prefix never begins another's.
func sessionPrefix(name string) string {
	return fmt.Sprintf("\xffsession:%03d:%s:", len(name), name)
}

// AddSession implements [SessionStore].
func (s *bigtableStore) AddSession(ctx context.Context, id string) error {
	if err := errors.Join(checkName(s.name), checkSessionIDs(id)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	set := bigtable.NewMutation()
	set.Set(BigtableFamily, bigtableSession, bigtableTimestamp, nil)
	if err := s.table.Apply(ctx, sessionPrefix(s.name)+id, set); err != nil {
		return s.wrap(ctx, "storing a session", err)
	}
	return nil
}

// RemoveSessions implements [SessionStore].
func (s *bigtableStore) RemoveSessions(ctx context.Context, ids ...string) error {
	if err := errors.Join(checkName(s.name), checkSessionIDs(ids...)); err != nil {
		return err
	}
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	rows := make([]string, len(ids))
	removals := make([]*bigtable.Mutation, len(ids))
	for i, id := range ids {
		rows[i] = sessionPrefix(s.name) + id
		removals[i] = bigtable.NewMutation()
		removals[i].DeleteRow()
	}
	failed, err := s.table.ApplyBulk(ctx, rows, removals)
	if err = errors.Join(append(failed, err)...); err != nil {
		return s.wrap(ctx, "removing sessions", err)
	}
	return nil
}

// Sessions implements [SessionStore].
func (s *bigtableStore) Sessions(ctx context.Context) ([]string, error) {
	if err := checkName(s.name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	prefix := sessionPrefix(s.name)
	var ids []string
	err := s.table.ReadRows(ctx, bigtable.PrefixRange(prefix), func(row bigtable.Row) bool {
		if id := row.Key()[len(prefix):]; isSessionID(id) {
			ids = append(ids, id)
		}
		return true
	}, bigtable.LimitRows(maxStoredSessions), bigtable.RowFilter(bigtable.ChainFilters(
		bigtable.ColumnRangeFilter(BigtableFamily, bigtableSession, bigtableSession+"\x00"), bigtable.StripValueFilter())))
	if err != nil {
		return nil, s.wrap(ctx, "reading the sessions", err)
	}
	return ids, nil
}
