package spannerstore

import (
	"context"

	"cloud.google.com/go/spanner"

	"github.com/gopercolator/percolator/tso/internal/record"
)

func (r *rows) AddSession(ctx context.Context, id string) error {
	return r.writeSessions(ctx, spanner.InsertOrUpdate(sessionsTable, []string{"Name", "Session"}, []any{r.name, id}))
}

func (r *rows) RemoveSessions(ctx context.Context, ids ...string) error {
	keys := make([]spanner.KeySet, len(ids))
	for i, id := range ids {
		keys[i] = spanner.Key{r.name, id}
	}
	return r.writeSessions(ctx, spanner.Delete(sessionsTable, spanner.KeySets(keys...)))
}

// writeSessions applies m. At least once is as good as once, because m is idempotent. It is one
// request, without a transaction that would have to take turns with the record's: no lease is
// renewed late because sessions are opened.
func (r *rows) writeSessions(ctx context.Context, m *spanner.Mutation) error {
	_, err := r.db.Apply(ctx, []*spanner.Mutation{m}, spanner.ApplyAtLeastOnce())
	return err
}

func (r *rows) Sessions(ctx context.Context) (ids []string, err error) {
	found := r.db.Single().ReadWithOptions(ctx, sessionsTable, spanner.Key{r.name}.AsPrefix(), []string{"Session"},
		&spanner.ReadOptions{Limit: record.MaxStoredSessions})
	err = found.Do(func(row *spanner.Row) error {
		var id string
		if err := row.Columns(&id); err != nil {
			return err
		}
		ids = append(ids, id)
		return nil
	})
	return ids, err
}
