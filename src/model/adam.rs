//! The optimiser: Adam with weight decay apart from the gradient (`AdamW`).

const MOMENTUM: f32 = 0.9;
const SQUARES: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// The settings of one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub learning_rate: f32,
    /// The share of a parameter that an update takes away, times the learning rate.
    pub decay: f32,
}

/// `Adam` holds the moments of one group of parameters.
#[derive(Clone, Debug)]
pub struct Adam {
    mean: Vec<f32>,
    square: Vec<f32>,
    updates: i32,
}

impl Adam {
    /// Starts with no moments for `parameters` parameters.
    pub fn new(parameters: usize) -> Self {
        Self { mean: vec![0.0; parameters], square: vec![0.0; parameters], updates: 0 }
    }

    /// Moves the parameters against their gradient.
    pub fn update(&mut self, parameters: &mut [f32], gradient: &[f32], rate: Rate) {
        self.updates += 1;
        let mean_share = 1.0 - MOMENTUM.powi(self.updates);
        let square_share = 1.0 - SQUARES.powi(self.updates);
        let moments = self.mean.iter_mut().zip(&mut self.square);
        for ((parameter, gradient), (mean, square)) in parameters.iter_mut().zip(gradient).zip(moments) {
            *mean += (1.0 - MOMENTUM) * (gradient - *mean);
            *square += (1.0 - SQUARES) * (gradient * gradient - *square);
            let step = (*mean / mean_share) / ((*square / square_share).sqrt() + EPSILON);
            *parameter -= rate.learning_rate * (step + rate.decay * *parameter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_of_a_bowl_is_found() {
        let mut at = [3.0_f32, -2.0];
        let mut adam = Adam::new(2);
        for _ in 0..400 {
            let gradient = [2.0 * (at[0] - 1.0), 20.0 * at[1]];
            adam.update(&mut at, &gradient, Rate { learning_rate: 0.05, decay: 0.0 });
        }
        assert!((at[0] - 1.0).abs() < 1e-2 && at[1].abs() < 1e-2, "{at:?}");
    }
}
