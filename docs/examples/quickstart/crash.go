package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
)

// crash moves 7 dollars from Bob to Joe and ends the process after the commit point, when it is
// about to send phase two: Bob's row is committed, Joe's is still locked. On an emulator only.
func crash(ctx context.Context, out io.Writer) error {
	return transferAndDie(ctx, func() {
		fmt.Fprintln(out, "the transfer has committed; dying before Joe's row hears of it")
		os.Exit(0)
	})
}

// transferAndDie calls die, which must not return, instead of sending phase two.
func transferAndDie(ctx context.Context, die func()) error {
	address := os.Getenv("BIGTABLE_EMULATOR_HOST")
	if address == "" {
		return errors.New("crash needs BIGTABLE_EMULATOR_HOST: real money stays where it is")
	}
	options := append(emulator.Connect(address), option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if strings.HasSuffix(method, "/MutateRows") && names(ctx, "accounts") {
				die()
			}
			return open(ctx, desc, cc, method, opts...)
		})))
	client, err := percolator.NewClient(ctx, percolator.Config{
		Project:  os.Getenv("PERCOLATOR_PROJECT"),
		Instance: os.Getenv("PERCOLATOR_INSTANCE"),
		Logger:   slog.Default(),
	}, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Update(ctx, move)
	return errors.Join(err, client.Flush(ctx))
}

// names reports whether a request is for a table. Commits also write to the journal, in rows that
// they share.
func names(ctx context.Context, table string) bool {
	headers, _ := metadata.FromOutgoingContext(ctx)
	return strings.Contains(strings.Join(headers.Get("x-goog-request-params"), "&"), url.QueryEscape("/tables/"+table))
}

// move is the transfer without its condition.
func move(_ context.Context, tx *percolator.Txn) error {
	return errors.Join(balance.Set(tx, "Bob", "$3"), balance.Set(tx, "Joe", "$9"))
}
