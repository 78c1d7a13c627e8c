//! Profiles of the AWS command line: keys, region and endpoint from its two files.

use std::collections::HashMap;
use std::path::PathBuf;

/// Settings that a profile gives, by the names object_store has for them.
pub(super) fn settings(profile: Option<&str>) -> Vec<(&'static str, String)> {
    let variable = |name: &str| std::env::var(name).ok().filter(|v: &String| !v.is_empty());
    let home = || std::env::home_dir().map(|home| home.join(".aws"));
    let file = |name: &str, default: &str| {
        let path = variable(name).map(PathBuf::from).or_else(|| home().map(|home| home.join(default)));
        path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    };
    let profile = profile.map(str::to_owned).or_else(|| variable("AWS_PROFILE")).unwrap_or_else(|| "default".into());
    merged(&file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), &file("AWS_CONFIG_FILE", "config"), &profile)
}

/// What the two files say of a profile; for keys the first counts more.
fn merged(credentials: &str, config: &str, profile: &str) -> Vec<(&'static str, String)> {
    const KNOWN: [(&str, &str); 5] = [
        ("aws_access_key_id", "aws_access_key_id"),
        ("aws_secret_access_key", "aws_secret_access_key"),
        ("aws_session_token", "aws_session_token"),
        ("region", "aws_region"),
        ("endpoint_url", "aws_endpoint_url"),
    ];
    let headings = match profile {
        "default" => ["default".to_owned(), "profile default".to_owned()],
        other => [format!("profile {other}"), other.to_owned()],
    };
    let mut values = HashMap::new();
    for heading in &headings {
        values.extend(section(config, heading));
    }
    let keys = section(credentials, profile);
    if keys.contains_key("aws_access_key_id") {
        // Keys stand together: a token of the other file belongs to other keys.
        values.remove("aws_session_token");
    }
    values.extend(keys);
    KNOWN.iter().filter_map(|(name, key)| Some((*key, values.get(*name)?.clone()))).collect()
}

/// The lines of a section, nested ones left out.
fn section(text: &str, heading: &str) -> HashMap<String, String> {
    let mut inside = false;
    let mut values = HashMap::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            inside = name.split_whitespace().eq(heading.split_whitespace());
        } else if inside
            && !line.starts_with([' ', '\t', '#', ';'])
            && let Some((name, value)) = line.split_once('=')
        {
            values.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_files_make_a_profile() {
        let credentials = "[default]\naws_access_key_id = A\naws_secret_access_key=S\n[work]\naws_access_key_id=W\n";
        let config = "[default]\nregion = eu-west-1\n# c\ns3 =\n  endpoint_url = nested\n[profile work]\nregion=x\naws_session_token=old\n";
        let of = |profile| merged(credentials, config, profile);
        assert_eq!(
            of("default"),
            [
                ("aws_access_key_id", "A".to_owned()),
                ("aws_secret_access_key", "S".into()),
                ("aws_region", "eu-west-1".into())
            ]
        );
        assert_eq!(of("work"), [("aws_access_key_id", "W".to_owned()), ("aws_region", "x".into())]);
        assert_eq!(of("none"), []);
    }
}
