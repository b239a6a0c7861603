package config

import "time"

// Database configures the connection to PostgreSQL. URL and Host are never both set: Load lets the
// later source win. Password holds the content of PasswordFile if a file is given.
type Database struct {
	URL              Secret        `key:"url" doc:"PostgreSQL URL or keyword DSN, possibly with several hosts (postgres://a:5432,b:5432/skald, or host=a,b dbname=skald). The keys below supply values that it omits. Excludes host."`
	Host             string        `key:"host" validate:"omitempty,db_hosts" doc:"Host, or several separated by commas; a directory means a Unix socket. Excludes url."`
	Port             int           `key:"port" validate:"min=1,max=65535" doc:"Port."`
	Name             string        `key:"name" validate:"required,max=63" doc:"Database name."`
	User             string        `key:"user" validate:"required,max=63" doc:"Role to log in as."`
	Password         Secret        `key:"password" doc:"Password. Excludes password_file."`
	PasswordFile     string        `key:"password_file" doc:"File that contains the password; trailing line breaks are ignored. It is read again when it changes and when PostgreSQL rejects the password. Excludes password."`
	SSLMode          string        `key:"ssl_mode" validate:"oneof=disable require verify-ca verify-full" doc:"TLS to PostgreSQL, unless the URL says otherwise. prod refuses disable."`
	SSLRootCert      string        `key:"ssl_root_cert" doc:"File of CA certificates to verify the server with; empty means the driver's default, or else the system's certificates."`
	MaxOpenConns     int           `key:"max_open_conns" validate:"min=10,max=1000" doc:"Maximum number of open connections of this node."`
	MaxIdleConns     int           `key:"max_idle_conns" validate:"min=0,max=1000" doc:"Connections kept open for reads by key; at most max_open_conns. Connections for lists close after a minute without use."`
	ConnMaxLifetime  time.Duration `key:"conn_max_lifetime" validate:"omitempty,min=1s,max=24h" doc:"A connection is replaced after this long; 0 means never."`
	AutoMigrate      bool          `key:"auto_migrate" doc:"Whether serve migrates the schema at startup; otherwise it only checks that the schema is current."`
	StatementTimeout time.Duration `key:"statement_timeout" validate:"omitempty,min=100ms,max=1h" doc:"PostgreSQL cancels a statement after this long; 0 means the server's setting. See docs/operations.md for PgBouncer."`
	IOTimeout        time.Duration `key:"io_timeout" validate:"min=1s,max=2h" doc:"A connection is closed when a single read or write takes this long; must exceed statement_timeout."`
	EmbeddedDir      string        `key:"embedded_dir" validate:"required" doc:"Data directory of the private PostgreSQL."`
	EmbeddedBin      string        `key:"embedded_bin" env:"SKALD_PG_BIN" doc:"Directory of the PostgreSQL programs for the private PostgreSQL; empty means the usual directories."`
}

func defaultDatabase() Database {
	return Database{
		Port:             5432,
		Name:             "skald",
		User:             "skald",
		SSLMode:          "disable",
		MaxOpenConns:     10,
		MaxIdleConns:     3,
		ConnMaxLifetime:  5 * time.Minute,
		AutoMigrate:      true,
		StatementTimeout: 30 * time.Second,
		IOTimeout:        60 * time.Second,
		EmbeddedDir:      "./.skald/postgres",
	}
}
