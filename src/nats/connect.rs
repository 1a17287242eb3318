//! Opening of the connection: addresses, credentials, TLS, and the check of the server's version.

use std::time::Duration;

use async_nats::{ConnectErrorKind, ConnectOptions, Event, ServerAddr};

use super::{NatsError, SERVER_VERSION_MIN};
use crate::config;
use crate::core::event::cloud::percent_decoded;

/// Most publishes that wait for the server's acknowledgement.
pub(super) const PENDING_ACKS_MAX: usize = 8_192;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(2);

/// Connects and checks that the server is supported.
pub(super) async fn connect(settings: config::Nats) -> Result<async_nats::Client, NatsError> {
    let addresses = addresses(&settings)?;
    let servers = without_credentials(&addresses);
    let options = options(&settings, &addresses).await?;
    let client = options.connect(addresses).await.map_err(|error| match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            NatsError::Login { servers: servers.clone(), source: error.into() }
        }
        _ => NatsError::Connect { servers: servers.clone(), source: error.into() },
    })?;
    let info = client.server_info();
    if !is_new_enough(&info.version) {
        return Err(NatsError::TooOld { servers, found: info.version });
    }
    if !info.jetstream {
        return Err(NatsError::NoJetStream { servers });
    }
    Ok(client)
}

fn addresses(settings: &config::Nats) -> Result<Vec<ServerAddr>, NatsError> {
    let wrong = |problem: &str| NatsError::Setting { key: "servers", problem: problem.to_owned() };
    let parse = |text: &config::Secret| {
        // The text may hold a password, so the error does not quote it.
        text.reveal()
            .trim()
            .parse::<ServerAddr>()
            .map_err(|_| wrong("holds something that is no address such as nats://host:4222"))
    };
    let addresses: Vec<ServerAddr> = settings.servers.iter().map(parse).collect::<Result<_, _>>()?;
    if addresses.is_empty() { Err(wrong("is empty")) } else { Ok(addresses) }
}

/// Formats the addresses without the user and password they may contain.
fn without_credentials(addresses: &[ServerAddr]) -> String {
    addresses.iter().map(|address| format!("{}:{}", address.host(), address.port())).collect::<Vec<_>>().join(", ")
}

/// The user and password, or the token, of the first address that has one: `nats://user:password@host`, `nats://token@host`. The client
/// itself ignores them.
fn login_of_addresses(addresses: &[ServerAddr]) -> Option<(String, Option<String>)> {
    let address = addresses.iter().find(|address| address.has_user_pass())?;
    let decoded = |text: &str| percent_decoded(text).into_owned();
    Some((decoded(address.username().unwrap_or_default()), address.password().map(decoded)))
}

async fn options(settings: &config::Nats, addresses: &[ServerAddr]) -> Result<ConnectOptions, NatsError> {
    let in_address = login_of_addresses(addresses);
    let given = [
        ("user", !settings.user.is_empty()),
        ("token", !settings.token.reveal().is_empty()),
        ("nkey_seed", !settings.nkey_seed.reveal().is_empty()),
        ("credentials", !settings.credentials.as_os_str().is_empty()),
        ("servers", in_address.is_some()),
    ];
    let mut chosen = given.into_iter().filter(|(_, given)| *given).map(|(key, _)| key);
    let (login, another) = (chosen.next(), chosen.next());
    if let Some(key) = another {
        let problem = format!("is given besides nats.{}; give one way to log in", login.unwrap_or_default());
        return Err(NatsError::Setting { key, problem });
    }
    let mut options = ConnectOptions::new();
    options = match login {
        Some("user") => options.user_and_password(settings.user.clone(), settings.password.reveal().to_owned()),
        Some("token") => options.token(settings.token.reveal().to_owned()),
        Some("servers") => match in_address.unwrap_or_default() {
            (user, Some(password)) => options.user_and_password(user, password),
            (token, None) => options.token(token),
        },
        Some("nkey_seed") => options.nkey(settings.nkey_seed.reveal().to_owned()),
        Some(_) => options.credentials_file(&settings.credentials).await.map_err(|error| NatsError::Setting {
            key: "credentials",
            problem: format!("cannot read {}: {error}", settings.credentials.display()),
        })?,
        None => options,
    };
    if !settings.tls_ca.as_os_str().is_empty() {
        options = options.add_root_certificates(settings.tls_ca.clone());
    }
    match (settings.tls_cert.as_os_str().is_empty(), settings.tls_key.as_os_str().is_empty()) {
        (true, true) => {}
        (false, false) => options = options.add_client_certificate(settings.tls_cert.clone(), settings.tls_key.clone()),
        (false, true) => return Err(NatsError::Setting { key: "tls_key", problem: "is needed with nats.tls_cert".to_owned() }),
        (true, false) => return Err(NatsError::Setting { key: "tls_cert", problem: "is needed with nats.tls_key".to_owned() }),
    }
    let options = options
        .name(concat!("pml ", env!("CARGO_PKG_VERSION")))
        .require_tls(settings.tls_required)
        .connection_timeout(CONNECT_TIMEOUT)
        .request_timeout(Some(Duration::from_secs(10)))
        .ping_interval(Duration::from_secs(5))
        .read_buffer_capacity(u16::MAX)
        .reconnect_delay_callback(|attempt| {
            Duration::from_millis(50 * 2_u64.pow(u32::try_from(attempt.min(6)).unwrap_or(6))).min(RECONNECT_DELAY_MAX)
        })
        .event_callback(|event| async move {
            match event {
                Event::Connected | Event::Draining | Event::Closed => tracing::debug!(%event, "nats"),
                Event::Disconnected
                | Event::LameDuckMode
                | Event::SlowConsumer(_)
                | Event::ServerError(_)
                | Event::ClientError(_) => tracing::warn!(%event, "nats"),
            }
        });
    Ok(options)
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) >= SERVER_VERSION_MIN,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Secret};

    #[test]
    fn servers_before_2_12_are_too_old() {
        for (version, expected) in
            [("2.12.0", true), ("2.15.1", true), ("3.0.0-beta.1", true), ("2.11.9", false), ("2.9.10", false), ("", false)]
        {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }

    async fn problem(change: impl FnOnce(&mut config::Nats)) -> String {
        let mut settings = Config::load(None, []).unwrap().nats;
        change(&mut settings);
        match addresses(&settings) {
            Err(error) => error.to_string(),
            Ok(addresses) => options(&settings, &addresses).await.err().map(|error| error.to_string()).unwrap_or_default(),
        }
    }

    #[tokio::test]
    async fn wrong_settings_are_refused_by_key_and_never_quoted() {
        let servers = |text: &str| vec![Secret::new(text)];
        assert!(problem(|_| {}).await.contains("nats.servers: is empty"));
        let shown = problem(|nats| nats.servers = servers("nats://me:hunter2@ho st:x")).await;
        assert!(shown.contains("nats.servers") && !shown.contains("hunter2"), "{shown}");
        let two = problem(|nats| {
            nats.servers = servers("nats://host");
            nats.user = "me".to_owned();
            nats.token = Secret::new("hunter2");
        });
        assert_eq!(two.await, "nats.token: is given besides nats.user; give one way to log in");
        let half = problem(|nats| {
            nats.servers = servers("nats://host");
            nats.tls_cert = "cert.pem".into();
        });
        assert_eq!(half.await, "nats.tls_key: is needed with nats.tls_cert");
    }

    #[tokio::test]
    async fn a_login_in_the_address_is_used_alone() {
        let login = |text: &str| login_of_addresses(&[text.parse().unwrap()]);
        assert_eq!(login("nats://host"), None);
        assert_eq!(login("nats://me:p%40ss@host"), Some(("me".to_owned(), Some("p@ss".to_owned()))));
        assert_eq!(login("nats://secret@host"), Some(("secret".to_owned(), None)));
        let both = problem(|nats| {
            nats.servers = vec![Secret::new("nats://me:hunter2@host")];
            nats.user = "me".to_owned();
        });
        assert_eq!(both.await, "nats.servers: is given besides nats.user; give one way to log in");
    }

    #[test]
    fn addresses_are_shown_without_passwords() {
        let address: ServerAddr = "nats://me:hunter2@host:4333".parse().unwrap();
        assert_eq!(without_credentials(&[address]), "host:4333");
    }
}
