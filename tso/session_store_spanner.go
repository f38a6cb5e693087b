package tso

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/spanner"
)

// SpannerSessionsDDL is the statement that creates the table in which oracles keep the
// ids of open sessions in Spanner, one row each.
const SpannerSessionsDDL = `CREATE TABLE IF NOT EXISTS PercolatorOracleSessions (
  Name STRING(128) NOT NULL,
  Session STRING(64) NOT NULL,
) PRIMARY KEY (Name, Session)`

const spannerSessionsTable = "PercolatorOracleSessions"

// AddSession implements [SessionStore].
func (s *spannerStore) AddSession(ctx context.Context, id string) error {
	if err := errors.Join(checkName(s.name), checkSessionIDs(id)); err != nil {
		return err
	}
	return s.writeSessions(ctx, "storing a session",
		spanner.InsertOrUpdate(spannerSessionsTable, []string{"Name", "Session"}, []any{s.name, id}))
}

// RemoveSessions implements [SessionStore].
func (s *spannerStore) RemoveSessions(ctx context.Context, ids ...string) error {
	if err := errors.Join(checkName(s.name), checkSessionIDs(ids...)); err != nil {
		return err
	}
	if len(ids) == 0 {
		return nil
	}
	rows := make([]spanner.KeySet, len(ids))
	for i, id := range ids {
		rows[i] = spanner.Key{s.name, id}
	}
	return s.writeSessions(ctx, "removing sessions", spanner.Delete(spannerSessionsTable, spanner.KeySets(rows...)))
}

// writeSessions applies m. At least once is as good as once, m being idempotent, and
// is one request, without a transaction that would have to take turns with the
// record's: a lease is never renewed late because sessions are opened.
func (s *spannerStore) writeSessions(ctx context.Context, doing string, m *spanner.Mutation) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if _, err := s.db.Apply(ctx, []*spanner.Mutation{m}, spanner.ApplyAtLeastOnce()); err != nil {
		return s.wrapSessions(ctx, doing, err)
	}
	return nil
}

// Sessions implements [SessionStore].
func (s *spannerStore) Sessions(ctx context.Context) ([]string, error) {
	if err := checkName(s.name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var ids []string
	rows := s.db.Single().ReadWithOptions(ctx, spannerSessionsTable, spanner.Key{s.name}.AsPrefix(), []string{"Session"},
		&spanner.ReadOptions{Limit: maxStoredSessions})
	err := rows.Do(func(row *spanner.Row) error {
		var id string
		if err := row.Columns(&id); err != nil {
			return err
		}
		if isSessionID(id) {
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		return nil, s.wrapSessions(ctx, "reading the sessions", err)
	}
	return ids, nil
}

// wrapSessions names the oracle and the table.
func (s *spannerStore) wrapSessions(ctx context.Context, doing string, err error) error {
	if err = withContext(ctx, err); lasting(err) {
		return fmt.Errorf("tso: %s of oracle %q: %w (is there a table %s?)", doing, s.name, err, spannerSessionsTable)
	}
	return fmt.Errorf("tso: %s of oracle %q in %s: %w", doing, s.name, spannerSessionsTable, err)
}
