package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/alts"

	"github.com/gopercolator/percolator/tso"
)

// OracleEnv is the environment variable with the default of --tso.
const OracleEnv = "PERCOLATOR_TSO_ADDR"

// OracleFlags say where the oracle is and how the connection is secured.
type OracleFlags struct {
	Targets                   string
	ca, cert, key, serverName string
	alts, insecure            bool
	Timeout                   time.Duration
}

// Add adds the flags; timeout is the default of --timeout.
func (f *OracleFlags) Add(cmd *cobra.Command, timeout time.Duration) {
	flags := cmd.Flags()
	flags.StringVar(&f.Targets, "tso", "", "host:port of the oracle's servers, separated by commas [$"+OracleEnv+"]")
	flags.StringVar(&f.ca, "tls-ca", "", "file of the authorities that the servers' certificates are from; turns TLS on [$"+tso.EnvCA+"]")
	flags.StringVar(&f.cert, "tls-cert", "", "file of the certificate to show to the servers [$"+tso.EnvCert+"]")
	flags.StringVar(&f.key, "tls-key", "", "file of its private key [$"+tso.EnvKey+"]")
	flags.StringVar(&f.serverName, "tls-server-name", "", "name in the servers' certificates, if it is not the host in --tso; turns TLS on [$"+tso.EnvServerName+"]")
	flags.BoolVar(&f.alts, "alts", false, "secure the connection by ALTS, on Google Cloud [$PERCOLATOR_TSO_ALTS]")
	flags.BoolVar(&f.insecure, "insecure", false, "allow plaintext to addresses other than loopback [$"+tso.EnvInsecure+"]")
	markConnection(flags, "tso", "tls-ca", "tls-cert", "tls-key", "tls-server-name", "alts", "insecure")
	flags.DurationVar(&f.Timeout, "timeout", timeout, "how long to wait [$PERCOLATOR_TSO_TIMEOUT]")
}

// DialOptions returns the options of a connection to any server.
func (f *OracleFlags) DialOptions(cmd *cobra.Command) ([]tso.DialOption, error) {
	if f.Targets == "" {
		return nil, Usagef("--tso or %s is needed", OracleEnv)
	}
	if err := AboveZero("timeout", f.Timeout); err != nil {
		return nil, err
	}
	typed := cmd.Flags().Changed
	byTLS := typed("tls-ca") || typed("tls-cert") || typed("tls-key") || typed("tls-server-name")
	if typed("alts") && f.alts && byTLS {
		return nil, Usagef("--alts and TLS exclude each other")
	}
	opts := append(slices.Clone(insideOf(cmd.Context()).Oracle), tso.WithTimeout(f.Timeout))
	var creds credentials.TransportCredentials
	var err error
	switch {
	case f.alts && !byTLS:
		creds, err = altsHere(alts.NewClientCreds(alts.DefaultClientOptions()))
	case f.ca != "" || f.cert != "" || f.key != "" || f.serverName != "":
		creds, err = tso.TLSFiles{
			CA: f.ca, Cert: f.cert, Key: f.key, ServerName: f.serverName,
			Logger: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
		}.ClientCredentials()
	case f.insecure:
		return append(opts, tso.WithPlaintext()), nil
	default:
		return opts, nil
	}
	return append(opts, tso.WithTransportCredentials(creds)), err
}

// Dial connects to the oracle.
func (f *OracleFlags) Dial(ctx context.Context, cmd *cobra.Command) (*tso.Client, error) {
	opts, err := f.DialOptions(cmd)
	if err != nil {
		return nil, err
	}
	return tso.Dial(ctx, f.Targets, opts...)
}

// ALTSServer returns credentials of ALTS, by which Google Cloud's machines know each other without
// certificates. It exists nowhere else.
func ALTSServer() (credentials.TransportCredentials, error) {
	return altsHere(alts.NewServerCreds(alts.DefaultServerOptions()))
}

// altsHere returns creds if this machine has ALTS. The library tells at the first
// handshake, which would be too late: a server would seem to work and refuse all clients.
// So a handshake is started on a connection that is closed already.
func altsHere(creds credentials.TransportCredentials) (credentials.TransportCredentials, error) {
	here, there := net.Pipe()
	_, _ = here.Close(), there.Close()
	_, _, err := creds.ServerHandshake(here)
	if errors.Is(err, alts.ErrUntrustedPlatform) {
		return nil, Usagef("--alts works on Google Cloud only, and this machine does not seem to be there: use TLS")
	}
	return creds, nil
}

// SplitTargets takes a list of addresses apart.
func SplitTargets(list string) (targets []string) {
	for target := range strings.SplitSeq(list, ",") {
		if target = strings.TrimSpace(target); target != "" {
			targets = append(targets, target)
		}
	}
	return targets
}
