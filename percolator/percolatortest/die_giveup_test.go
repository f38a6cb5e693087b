package percolatortest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/percolator"
)

// ends is a test that keeps why it was ended.
type ends struct {
	testing.TB
	ctx  context.Context
	said string
}

func (e *ends) Context() context.Context { return e.ctx }

func (e *ends) Fatalf(format string, args ...any) {
	e.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// A program that gives up before its client has died would end the runs as if it had written all:
// that ends the test, and says where.
func TestDieAtEachOfAProgramThatGivesUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		patience time.Duration // of the program
		over     bool          // the test ends in its second run
		want     string
	}{
		"a write":  {time.Second, false, "run 4, in which the client has not died: do has returned without an error, and has not waited for the write at which the client was to die (client-8 "},
		"the test": {time.Minute, true, "run 2, in which the client has not died: context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Bubble(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				f, ended := &ends{TB: t, ctx: ctx}, make(chan struct{})
				go func() {
					defer close(ended)
					env := New(f, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
					env.calls = append([]option.ClientOption{option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(slow))}, env.calls...)
					env.DieAtEach(func(ctx context.Context, run int, client *percolator.Client) error {
						if run == 2 && c.over {
							end()
							<-ctx.Done()
							return nil
						}
						ctx, cancel := context.WithTimeout(ctx, c.patience)
						defer cancel()
						_, _ = client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
							return tx.Set(percolator.Cell{Table: "t", Row: fmt.Sprint(run), Column: "c"}, nil)
						})
						return nil
					}, func(context.Context, int, *percolator.Client) error { return nil })
				}()
				if <-ended; !strings.Contains(f.said, c.want) {
					t.Errorf("it said %q, want %q", f.said, c.want)
				}
			})
		})
	}
}

// slow answers conditional writes after a while.
func slow(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if strings.HasSuffix(method, "/CheckAndMutateRow") {
		time.Sleep(10 * time.Second)
	}
	return err
}
