package tso

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc/credentials"
)

// TLSFiles names the PEM files of one side of a TLS connection. They are read again while they are
// in use, so that certificates rotate without a restart: a new connection uses what is in the
// files, or was at most Refresh ago, and existing connections go on.
//
// Files that cannot be used – half written, a key that does not belong to the certificate, an
// expired certificate – change nothing: the former certificates stay in use, and the log says so
// once. Replace files by renaming: a file of several certificates that is cut exactly between two
// of them looks whole.
//
// TLS 1.3 is the minimum. Sessions are not resumed, so that every new connection is checked against
// the present files.
type TLSFiles struct {
	// Cert and Key are this side's certificate, followed by its intermediates, and its private key.
	// Servers need them; clients when the servers ask for a certificate.
	Cert, Key string

	// CA holds the authorities that this side trusts. With it, a server demands from every client a
	// certificate that one of them has signed (mutual TLS). A client without it trusts the
	// authorities of its system.
	CA string

	// ServerName is what the certificate of the server has to be for. "": the host in the address
	// that is dialed. Clients only.
	ServerName string

	// Refresh is how old the knowledge of the files may be when a connection is made. 0: 10 s.
	Refresh time.Duration

	// Logger gets a line when certificates change, cannot be used, or are about to expire; never
	// their contents. nil: no log.
	Logger *slog.Logger
}

// Bounds of TLSFiles.
const (
	defaultRefresh = 10 * time.Second
	maxPEMBytes    = 1 << 20
	expirySoon     = 72 * time.Hour // when the log begins to warn
)

// ServerCredentials returns the credentials of a server, for ServerConfig.Credentials.
// ErrInvalidArgument: a file cannot be used.
func (f TLSFiles) ServerCredentials() (credentials.TransportCredentials, error) {
	if f.Cert == "" || f.Key == "" {
		return nil, fmt.Errorf("tso: %w: a server with TLS needs a certificate and its key", ErrInvalidArgument)
	}
	if f.ServerName != "" {
		return nil, fmt.Errorf("tso: %w: ServerName is for clients", ErrInvalidArgument)
	}
	return newFileCredentials(f, serverTLS)
}

// ClientCredentials returns the credentials of a client, for [WithTransportCredentials].
// ErrInvalidArgument: a file cannot be used.
func (f TLSFiles) ClientCredentials() (credentials.TransportCredentials, error) {
	if (f.Cert == "") != (f.Key == "") {
		return nil, fmt.Errorf("tso: %w: a certificate and its key go together", ErrInvalidArgument)
	}
	return newFileCredentials(f, clientTLS(f.ServerName))
}

// configure makes the configuration of one side from its certificate and its authorities, each of
// which may be nil.
type configure func(cert *tls.Certificate, roots *x509.CertPool) *tls.Config

func serverTLS(cert *tls.Certificate, roots *x509.CertPool) *tls.Config {
	cfg := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{*cert},
		SessionTicketsDisabled: true,
	}
	if roots != nil {
		cfg.ClientCAs, cfg.ClientAuth = roots, tls.RequireAndVerifyClientCert
	}
	return cfg
}

func clientTLS(serverName string) configure {
	return func(cert *tls.Certificate, roots *x509.CertPool) *tls.Config {
		cfg := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: serverName}
		if cert != nil {
			cfg.Certificates = []tls.Certificate{*cert}
		}
		return cfg
	}
}

// newFileCredentials reads the files for the first time.
func newFileCredentials(f TLSFiles, side configure) (credentials.TransportCredentials, error) {
	if f.Refresh == 0 {
		f.Refresh = defaultRefresh
	}
	if f.Refresh < 0 {
		return nil, fmt.Errorf("tso: %w: Refresh %v is negative", ErrInvalidArgument, f.Refresh)
	}
	if f.Logger == nil {
		f.Logger = slog.New(slog.DiscardHandler)
	}
	r := &tlsReloader{files: f, side: side}
	pems, err := f.read()
	if err == nil {
		err = r.use(pems)
	}
	if err != nil {
		return nil, fmt.Errorf("tso: %w: %w", ErrInvalidArgument, err)
	}
	r.checked = time.Now()
	return &fileCredentials{reloader: r}, nil
}

var errServerName = errors.New("tso: set TLSFiles.ServerName instead")

// The environment variables that [DialOptionsFromEnv] reads: the three files of
// [TLSFiles], the name in the servers' certificates, and whether plaintext is allowed.
const (
	EnvCA         = "PERCOLATOR_TSO_CA"
	EnvCert       = "PERCOLATOR_TSO_CERT"
	EnvKey        = "PERCOLATOR_TSO_KEY"
	EnvServerName = "PERCOLATOR_TSO_SERVER_NAME"
	EnvInsecure   = "PERCOLATOR_TSO_INSECURE" // a boolean, as in Go: 1, true, 0, false …
)

// DialOptionsFromEnv returns the options of [Dial] that the environment asks for, so that a program
// needs no change to use TLS. Any of EnvCA, EnvCert and EnvServerName turns TLS on. Without them
// the client speaks plaintext, with other machines only if EnvInsecure is true. logger, which may
// be nil, is that of [TLSFiles]. ErrInvalidArgument: a file cannot be used, or EnvInsecure is no
// boolean.
func DialOptionsFromEnv(logger *slog.Logger) ([]DialOption, error) {
	files := TLSFiles{
		CA: os.Getenv(EnvCA), Cert: os.Getenv(EnvCert), Key: os.Getenv(EnvKey),
		ServerName: os.Getenv(EnvServerName), Logger: logger,
	}
	insecure := false
	if text := os.Getenv(EnvInsecure); text != "" {
		var err error
		if insecure, err = strconv.ParseBool(text); err != nil {
			return nil, fmt.Errorf("tso: %w: %s is neither true nor false", ErrInvalidArgument, EnvInsecure)
		}
	}
	switch {
	case files.CA != "" || files.Cert != "" || files.Key != "" || files.ServerName != "":
		creds, err := files.ClientCredentials()
		if err != nil {
			return nil, err
		}
		return []DialOption{WithTransportCredentials(creds)}, nil
	case insecure:
		return []DialOption{WithPlaintext()}, nil
	}
	return nil, nil
}
