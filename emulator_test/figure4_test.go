package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Figure 4 of the paper, cell by cell: Bob has $10, Joe has $2, and Bob gives Joe $7. The
// transaction is stopped after each of its steps. Timestamps are numbered from 5, as in the paper.
func Example_figure4() {
	t := &exampleTB{}
	defer t.end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "accounts"}}}, percolatortest.Address(storeAddr))
	bob := percolator.Cell{Table: "accounts", Row: "Bob", Column: "bal"}
	joe := percolator.Cell{Table: "accounts", Row: "Joe", Column: "bal"}
	print := func(state string) { fmt.Printf("%s\n%s\n", state, env.DumpFrom("accounts", 5)) }

	_, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		return errors.Join(tx.Set(bob, []byte("$10")), tx.Set(joe, []byte("$2")))
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := env.Client.Flush(ctx); err != nil {
		t.Fatalf("%v", err)
	}
	print("1. Initial state.")

	// The prewrites of Bob's and Joe's rows go out together; here Bob's arrives first.
	bobLocked, joeLocks, commitPoint, joeCommits := percolatortest.NewHold(), percolatortest.NewHold(), percolatortest.NewHold(), percolatortest.NewHold()
	env.FaultsOf(env.Client).Handle(func(r percolatortest.Request) percolatortest.Action {
		switch {
		case r.Row == "Bob" && r.Sets("lock"):
			return bobLocked.Answer()
		case r.Row == "Joe" && r.Sets("lock"):
			return joeLocks
		case r.Row == "Bob" && r.Sets("write"):
			return commitPoint
		case r.Row == "Joe" && r.Sets("write"):
			return joeCommits
		}
		return percolatortest.Pass
	})
	transferred := make(chan error, 1)
	go func() {
		_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
			for _, c := range []percolator.Cell{bob, joe} {
				if _, err := tx.Get(ctx, c); err != nil {
					return err
				}
			}
			return errors.Join(tx.Set(bob, []byte("$3")), tx.Set(joe, []byte("$9")))
		})
		transferred <- err
	}()

	bobLocked.Wait(t, 1)
	joeLocks.Wait(t, 1)
	print("2. Bob's account is locked: the primary.")

	bobLocked.Release()
	joeLocks.Release()
	commitPoint.Wait(t, 1)
	print("3. Joe's account is locked.")

	commitPoint.Release()
	joeCommits.Wait(t, 1)
	print("4. The commit point.")

	if err := <-transferred; err != nil {
		t.Fatalf("%v", err)
	}
	joeCommits.Release()
	print("5. The secondary is committed.")

	// Output:
	// 1. Initial state.
	// key  bal:data  bal:lock  bal:write
	// Bob  6:        6:        6: data @ 5
	//      5: $10    5:        5:
	// Joe  6:        6:        6: data @ 5
	//      5: $2     5:        5:
	//
	// 2. Bob's account is locked: the primary.
	// key  bal:data  bal:lock         bal:write
	// Bob  7: $3     7: I am primary  7:
	//      6:        6:               6: data @ 5
	//      5: $10    5:               5:
	// Joe  6:        6:               6: data @ 5
	//      5: $2     5:               5:
	//
	// 3. Joe's account is locked.
	// key  bal:data  bal:lock              bal:write
	// Bob  7: $3     7: I am primary       7:
	//      6:        6:                    6: data @ 5
	//      5: $10    5:                    5:
	// Joe  7: $9     7: primary @ Bob.bal  7:
	//      6:        6:                    6: data @ 5
	//      5: $2     5:                    5:
	//
	// 4. The commit point.
	// key  bal:data  bal:lock              bal:write
	// Bob  8:        8:                    8: data @ 7
	//      7: $3     7:                    7:
	//      6:        6:                    6: data @ 5
	//      5: $10    5:                    5:
	// Joe  7: $9     7: primary @ Bob.bal  7:
	//      6:        6:                    6: data @ 5
	//      5: $2     5:                    5:
	//
	// 5. The secondary is committed.
	// key  bal:data  bal:lock  bal:write
	// Bob  8:        8:        8: data @ 7
	//      7: $3     7:        7:
	//      6:        6:        6: data @ 5
	//      5: $10    5:        5:
	// Joe  8:        8:        8: data @ 7
	//      7: $9     7:        7:
	//      6:        6:        6: data @ 5
	//      5: $2     5:        5:
}

// exampleTB is as much of testing.TB as an environment needs; an example has none.
type exampleTB struct {
	testing.TB
	cleanups []func()
}

func (t *exampleTB) Helper()                           {}
func (t *exampleTB) Logf(string, ...any)               {}
func (t *exampleTB) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleTB) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (t *exampleTB) end() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}
