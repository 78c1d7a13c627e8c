//! Chromium without a window, told what to do over two pipes: messages of its DevTools protocol, each ended by a zero.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Browser {
    child: Child,
    orders: File,
    answers: Receiver<Value>,
    next: u64,
    session: String,
    errors: Vec<String>,
    _folder: TempDir,
}

impl Browser {
    /// `None` where there is none.
    pub fn start() -> Option<Self> {
        let find =
            |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
        let program = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(find)?;
        let folder = tempfile::tempdir().unwrap();
        let pipes = ["orders", "answers"].map(|name| folder.path().join(name));
        assert!(Command::new("mkfifo").args(&pipes).status().unwrap().success());
        // The shell puts the pipes where Chromium looks for them.
        let script = "exec \"$0\" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
                      --disable-background-networking --disable-component-update --force-device-scale-factor=1 \
                      --window-size=1000,640 --hide-scrollbars --remote-debugging-pipe --user-data-dir=\"$1\" about:blank \
                      3<\"$2\" 4>\"$3\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, program]).arg(folder.path().join("profile")).args(&pipes);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
        let orders = OpenOptions::new().write(true).open(&pipes[0]).unwrap();
        let answers = File::open(&pipes[1]).unwrap();
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(answers).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap_or(Value::Null);
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            child,
            orders,
            answers: receiver,
            next: 0,
            session: String::new(),
            errors: Vec::new(),
            _folder: folder,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = json!({"targetId": target["targetId"], "flatten": true});
        browser.session = browser.call("Target.attachToTarget", attached)["sessionId"].as_str().unwrap().to_owned();
        browser.call("Runtime.enable", json!({}));
        browser.call("Log.enable", json!({}));
        let size = json!({"width": 1000, "height": 640, "deviceScaleFactor": 1, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", size);
        Some(browser)
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.orders.write_all(format!("{message}\0").as_bytes()).unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let answer = self.answers.recv_timeout(left).unwrap_or_else(|_| panic!("no answer to {method}"));
            self.note(&answer);
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    /// What goes wrong on the page is kept.
    fn note(&mut self, message: &Value) {
        let wrong = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => message["params"]["entry"]["level"] == "error",
            _ => false,
        };
        // Browsers ask every server for an icon.
        if wrong && !message.to_string().contains("favicon") {
            self.errors.push(message["params"].to_string());
        }
    }

    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
    }

    pub fn evaluate(&mut self, script: &str) -> Value {
        let result = self.call("Runtime.evaluate", json!({"expression": script, "returnByValue": true}));
        result["result"]["value"].clone()
    }

    pub fn wait_for(&mut self, condition: &str) {
        let until = Instant::now() + PATIENCE;
        while self.evaluate(condition) != true {
            assert!(Instant::now() < until, "never: {condition}; {:?}", self.errors);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn mouse(&mut self, kind: &str, x: i32, y: i32, more: Value) {
        let mut event = json!({"type": kind, "x": x, "y": y});
        for (key, value) in more.as_object().into_iter().flatten() {
            event[key] = value.clone();
        }
        self.call("Input.dispatchMouseEvent", event);
    }

    pub fn move_to(&mut self, x: i32, y: i32) {
        self.mouse("mouseMoved", x, y, json!({}));
    }

    pub fn wheel(&mut self, x: i32, y: i32, delta: i32) {
        self.mouse("mouseWheel", x, y, json!({"deltaX": 0, "deltaY": delta}));
    }

    pub fn drag(&mut self, from: (i32, i32), to: (i32, i32)) {
        let button = json!({"button": "left", "buttons": 1, "clickCount": 1});
        self.mouse("mouseMoved", from.0, from.1, json!({}));
        self.mouse("mousePressed", from.0, from.1, button.clone());
        self.mouse("mouseMoved", to.0, to.1, json!({"buttons": 1}));
        self.mouse("mouseReleased", to.0, to.1, button);
    }

    pub fn press(&mut self, key: &str) {
        self.call("Input.dispatchKeyEvent", json!({"type": "keyDown", "key": key, "text": key}));
        self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
    }

    pub fn screenshot(&mut self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        from_base64(picture["data"].as_str().unwrap())
    }

    /// What went wrong on the page so far.
    pub fn errors(&self) -> Vec<String> {
        self.errors.clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> =
        text.bytes().filter_map(|byte| DIGITS.iter().position(|&d| d == byte)).map(|digit| digit as u32).collect();
    let group = |digits: &[u32]| {
        let bits = digits.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - digits.len()));
        bits.to_be_bytes()[1..digits.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}
