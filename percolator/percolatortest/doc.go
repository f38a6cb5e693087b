// Package percolatortest runs the real protocol in a test: a Bigtable emulator, an oracle with a
// clock that the test controls, and any number of clients whose requests the test can stop, lose,
// repeat and delay.
//
//	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "accounts"}}})
//	_, err := env.Client.Update(ctx, transfer)
//
// An environment starts within milliseconds and shares nothing with others, so tests run in
// parallel. Everything stops when the test ends.
//
// # Time
//
// The oracle's time, never a machine's clock, judges locks, so a test ages them without waiting:
//
//	env.Clock.Advance(11 * time.Second) // a lock with a TTL of 10 s is dead now
//
// # Faults
//
// Each client has its own connection to the store and its own way to the oracle; a function decides
// what happens to each request:
//
//	faults := env.FaultsOf(client)
//	faults.Handle(func(r percolatortest.Request) percolatortest.Action {
//		if r.Method == percolatortest.CheckAndMutateRow && r.Sets("write") {
//			return percolatortest.LoseAnswer // the commit is applied, the client does not learn of it
//		}
//		return percolatortest.Pass
//	})
//
// Faults see requests as they leave the client: a request that Google's Bigtable client repeats by
// itself (ReadRows, MutateRow, MutateRows and SampleRowKeys after Unavailable; never
// CheckAndMutateRow) appears again. A [Hold] keeps requests back until the test releases them, even
// long after the caller has given up.
//
// [Env.DieAtEach] has a program die at each of its writes in turn.
//
// # Bad days of the service
//
// [Refuse] answers requests of one client with a status of the service, such as that of
// [emulator.Overloaded]. What fails for all clients belongs to the emulator: its connections
// ([OverConnections], [emulator.Server.Connections]), its storage ([emulator.Server.SetFull]), its
// tablets ([emulator.Disks]), its processor ([emulator.Processor]) and whole requests
// ([emulator.OnRequest]); pass options with [Emulator], and reach the running one by
// [Env.Emulator]. In a [Bubble] all of that takes no time.
//
// # Observers
//
// A test whose observers cause their own runs without end fails by name once a worker of the
// environment has seen 1,000 of them (observers.Registry.Observe). Then WaitIdle of its workers and
// clients returns an error.
//
// # Processes
//
// A test that kills processes starts its environment with [Listen] and hands [Env.Location] to a
// child, which calls [Join].
package percolatortest
