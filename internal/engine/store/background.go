package store

import "context"

// Background work passes over tables, and no transaction waits for it. It goes under the
// app profile for it, where there is one: Bigtable then serves the rest first. It is
//
//   - the workers' search for notifications and locks, WaitIdle, and lists of notifications, of
//     parked cells and of locks,
//   - collection, all of it,
//   - exports, and the rows that a restore writes,
//   - backfills and verifications of indexes, and walks for observers.
//
// Each of them calls InBackground where it begins. What they share with others goes as the others
// do: reads that are sent together, phase two and other bulk mutations, and the refresh of the meta
// row. Their conditional mutations go under the profile too, so it has to route to the cluster of
// the other one and to allow single-row transactions.
//
// Rejected: to tell background work by the query, since a walk over a table reads as a transaction
// does, and to give it a Backend of its own, which every layer in between would have to hand down.

type backgroundKey struct{}

// InBackground marks everything that is sent with ctx as background work.
func InBackground(ctx context.Context) context.Context {
	if ctx == nil || isBackground(ctx) { // nil is for others to refuse
		return ctx
	}
	return context.WithValue(ctx, backgroundKey{}, true)
}

func isBackground(ctx context.Context) bool { return ctx.Value(backgroundKey{}) != nil }
